#include "server/auth/certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <memory>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

struct Free {
  void operator()(BIO* p) const { BIO_free_all(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
};
template <typename T>
using Handle = std::unique_ptr<T, Free>;

absl::Status Invalid(const std::string& path, const std::string& what) {
  return InvalidError("TLS_INVALID", path + ": " + what);
}

int NoPassword(char*, int, int, void*) { return -1; }

absl::StatusOr<Handle<BIO>> OpenPem(const std::string& path) {
  auto bytes = ReadFile(path, kPemFileBytesMax);
  if (!bytes.ok()) return Invalid(path, MessageOf(bytes.status()));
  Handle<BIO> bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || BIO_write(bio.get(), bytes->data(), static_cast<int>(bytes->size())) !=
                            static_cast<int>(bytes->size())) {
    return Invalid(path, "is empty");
  }
  return bio;
}

// The first certificate of a file, within its time.
absl::StatusOr<Handle<X509>> ReadCertificate(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const Handle<BIO> bio, OpenPem(path));
  Handle<X509> certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
  if (certificate == nullptr) return Invalid(path, "holds no certificate in PEM form");
  if (X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0) {
    return Invalid(path, "the certificate has expired; put a new one in its place");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate.get())) > 0) {
    return Invalid(path, "the certificate is not valid yet; check this host's clock");
  }
  return certificate;
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty() || files.client_ca.empty()) {
    return InvalidError("TLS_INVALID",
                        "mutual TLS needs all three of --tls-cert, --tls-key and --tls-client-ca");
  }
  struct stat info {};
  if (::stat(files.key.c_str(), &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return PreconditionError("KEY_PERMISSIONS", files.key +
                                                    ": only the user of assayd may use "
                                                    "this key; run chmod 600");
  }
  ASSAY_ASSIGN_OR_RETURN(const Handle<X509> certificate, ReadCertificate(files.certificate));
  ASSAY_RETURN_IF_ERROR(ReadCertificate(files.client_ca).status());
  ASSAY_ASSIGN_OR_RETURN(const Handle<BIO> bio, OpenPem(files.key));
  const Handle<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) return Invalid(files.key, "is no unencrypted private key in PEM form");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Invalid(files.key, "is not the key of the certificate " + files.certificate);
  }
  return absl::OkStatus();
}

}  // namespace assay
