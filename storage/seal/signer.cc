#include "storage/seal/signer.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr uint64_t kPemMax = 16384;

struct Free {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(EVP_MD_CTX* p) const { EVP_MD_CTX_free(p); }
  void operator()(BIO* p) const { BIO_free_all(p); }
};
template <typename T>
using Handle = std::unique_ptr<T, Free>;

absl::Status KeyInvalid(std::string_view where, const std::string& what) {
  return InvalidError("KEY_INVALID", std::string(where) + ": " + what);
}

// No prompt on the terminal for an encrypted key: it is refused.
int NoPassword(char*, int, int, void*) { return -1; }

std::string BioText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<std::array<uint8_t, 32>> RawPublic(EVP_PKEY* key, std::string_view where) {
  std::array<uint8_t, 32> raw;
  size_t size = raw.size();
  if (EVP_PKEY_get_id(key) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key, raw.data(), &size) != 1 || size != raw.size()) {
    return KeyInvalid(where, "is no Ed25519 key");
  }
  return raw;
}

}  // namespace

// ---- PublicKey

absl::StatusOr<PublicKey> PublicKey::FromPem(std::string_view pem, std::string_view where) {
  if (pem.size() > kPemMax) return KeyInvalid(where, "is too long for a public key");
  const Handle<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Handle<EVP_PKEY> key(PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return KeyInvalid(where,
                      "is no public key in PEM form (-----BEGIN PUBLIC KEY-----); give the key.pub "
                      "that the service publishes");
  }
  ASSAY_ASSIGN_OR_RETURN(const auto raw, RawPublic(key.get(), where));
  PublicKey out(raw);
  if (out.pem() != pem) {
    return KeyInvalid(where, "holds more than one public key in its plain PEM form");
  }
  return out;
}

absl::StatusOr<PublicKey> PublicKey::FromFile(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const std::string pem, ReadFile(path, kPemMax));
  return FromPem(pem, path);
}

bool PublicKey::Verify(std::string_view message, std::string_view signature) const {
  if (signature.size() != 64) return false;
  const Handle<EVP_PKEY> key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw_.data(), raw_.size()));
  const Handle<EVP_MD_CTX> context(EVP_MD_CTX_new());
  if (key == nullptr || context == nullptr ||
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1) {
    return false;
  }
  return EVP_DigestVerify(context.get(), reinterpret_cast<const uint8_t*>(signature.data()),
                          signature.size(), reinterpret_cast<const uint8_t*>(message.data()),
                          message.size()) == 1;
}

std::string PublicKey::key_id() const {
  return Sha256Hex(std::string_view(reinterpret_cast<const char*>(raw_.data()), raw_.size()));
}

std::string PublicKey::pem() const {
  const Handle<EVP_PKEY> key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw_.data(), raw_.size()));
  const Handle<BIO> bio(BIO_new(BIO_s_mem()));
  if (key == nullptr || bio == nullptr || PEM_write_bio_PUBKEY(bio.get(), key.get()) != 1) {
    return "";
  }
  return BioText(bio.get());
}

// ---- Signer

namespace {

// A private key in memory. Signing does not change it.
class KeySigner : public Signer {
 public:
  KeySigner(Handle<EVP_PKEY> secret, const PublicKey& open)
      : secret_(std::move(secret)), open_(open) {}
  absl::StatusOr<std::string> Sign(std::string_view message) const override;
  const PublicKey& public_key() const override { return open_; }
  EVP_PKEY* secret() const { return secret_.get(); }

 private:
  Handle<EVP_PKEY> secret_;
  PublicKey open_;
};

absl::StatusOr<std::string> KeySigner::Sign(std::string_view message) const {
  const Handle<EVP_MD_CTX> context(EVP_MD_CTX_new());
  std::string signature(64, '\0');
  size_t size = signature.size();
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, secret_.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<uint8_t*>(signature.data()), &size,
                     reinterpret_cast<const uint8_t*>(message.data()), message.size()) != 1 ||
      size != signature.size()) {
    return InternalError("SIGNING_FAILED", "OpenSSL could not sign");
  }
  return signature;
}

absl::StatusOr<std::unique_ptr<KeySigner>> SignerOfSeed(const std::array<uint8_t, 32>& seed) {
  Handle<EVP_PKEY> secret(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
  if (secret == nullptr) return InternalError("SIGNING_FAILED", "OpenSSL has no Ed25519");
  ASSAY_ASSIGN_OR_RETURN(const auto raw, RawPublic(secret.get(), "new key"));
  return std::make_unique<KeySigner>(std::move(secret), PublicKey::FromRaw(raw));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Signer>> Signer::FromSeed(const std::array<uint8_t, 32>& seed) {
  return SignerOfSeed(seed);
}

absl::StatusOr<std::unique_ptr<Signer>> Signer::Open(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return ErrnoError(errno, "opening the key " + path);
  const bool mine = info.st_uid == geteuid() || geteuid() == 0;
  if (!S_ISREG(info.st_mode) || !mine || (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return PreconditionError("KEY_PERMISSIONS",
                             path +
                                 ": a signing key must be a regular file that only its owner can "
                                 "use; check who could have read it, then run chmod 600");
  }
  ASSAY_ASSIGN_OR_RETURN(std::string pem, ReadFile(path, kPemMax));
  const Handle<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Handle<EVP_PKEY> secret(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  OPENSSL_cleanse(pem.data(), pem.size());
  if (secret == nullptr) {
    return KeyInvalid(path, "is no unencrypted private key in PEM form (PKCS#8)");
  }
  ASSAY_ASSIGN_OR_RETURN(const auto raw, RawPublic(secret.get(), path));
  return std::make_unique<KeySigner>(std::move(secret), PublicKey::FromRaw(raw));
}

absl::StatusOr<std::unique_ptr<Signer>> Signer::Create(const std::string& path) {
  std::array<uint8_t, 32> seed;
  if (RAND_priv_bytes(seed.data(), static_cast<int>(seed.size())) != 1) {
    return InternalError("SIGNING_FAILED", "OpenSSL gave no random bytes");
  }
  ASSAY_ASSIGN_OR_RETURN(std::unique_ptr<KeySigner> signer, SignerOfSeed(seed));
  OPENSSL_cleanse(seed.data(), seed.size());
  const Handle<BIO> bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PKCS8PrivateKey(bio.get(), signer->secret(), nullptr, nullptr, 0, nullptr,
                                    nullptr) != 1) {
    return InternalError("SIGNING_FAILED", "OpenSSL could not write the key");
  }
  // link() refuses an existing name, so of two processes that create a key one wins and the other
  // sees KEY_EXISTS; rename() would let both sign with different keys.
  const std::string temporary = path + ".new." + std::to_string(getpid());
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(temporary, BioText(bio.get()), 0600));
  absl::Status status;
  if (link(temporary.c_str(), path.c_str()) != 0) {
    status = errno == EEXIST
                 ? PreconditionError("KEY_EXISTS", path + ": there is a key already; it is kept")
                 : ErrnoError(errno, "creating the key " + path);
  }
  unlink(temporary.c_str());
  ASSAY_RETURN_IF_ERROR(status);
  ASSAY_RETURN_IF_ERROR(SyncDirectory(DirName(path)));
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(path + ".pub", signer->public_key().pem()));
  return signer;
}

absl::StatusOr<std::unique_ptr<Signer>> Signer::OpenOrCreate(const std::string& path) {
  if (!FileExists(path)) {
    absl::StatusOr<std::unique_ptr<Signer>> created = Create(path);
    if (created.ok() || ReasonOf(created.status()) != "KEY_EXISTS") return created;
  }
  ASSAY_ASSIGN_OR_RETURN(std::unique_ptr<Signer> signer, Open(path));
  // A crash right after the key was made leaves it without its public half.
  if (!FileExists(path + ".pub")) {
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(path + ".pub", signer->public_key().pem()));
  }
  return signer;
}

}  // namespace assay
