// Ed25519 keys (RFC 8032) in the file forms that the openssl command line reads.

#ifndef ASSAY_STORAGE_SEAL_SIGNER_H_
#define ASSAY_STORAGE_SEAL_SIGNER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay {

// A public key. Immutable, copyable.
class PublicKey {
 public:
  // SPKI PEM ("-----BEGIN PUBLIC KEY-----"). KEY_INVALID naming `where` for anything but one
  // Ed25519 key in exactly the form that pem() writes.
  static absl::StatusOr<PublicKey> FromPem(std::string_view pem, std::string_view where);
  static absl::StatusOr<PublicKey> FromFile(const std::string& path);
  static PublicKey FromRaw(const std::array<uint8_t, 32>& raw) { return PublicKey(raw); }

  // True when `signature` (64 bytes) is this key's signature of `message`.
  bool Verify(std::string_view message, std::string_view signature) const;

  const std::array<uint8_t, 32>& raw() const { return raw_; }
  std::string key_id() const;  // SHA-256 of the 32 raw bytes, hex
  std::string pem() const;
  bool operator==(const PublicKey& other) const { return raw_ == other.raw_; }

 private:
  explicit PublicKey(const std::array<uint8_t, 32>& raw) : raw_(raw) {}
  std::array<uint8_t, 32> raw_;
};

// Whoever signs for a log: a private key in memory, or a program that has one (command_signer.h).
// Thread-safe.
class Signer {
 public:
  // Reads a PKCS#8 PEM. KEY_PERMISSIONS when group or others may do anything with the file, it
  // belongs to another user or is no regular file, KEY_INVALID when it is not one unencrypted
  // Ed25519 key, FILE_MISSING.
  static absl::StatusOr<std::unique_ptr<Signer>> Open(const std::string& path);
  // Makes a new random key at `path` (mode 0600, durable; never replaces a file: KEY_EXISTS) and
  // the public half at `path`.pub (0644).
  static absl::StatusOr<std::unique_ptr<Signer>> Create(const std::string& path);
  // Open, or Create when there is no file; makes a missing `path`.pub again.
  static absl::StatusOr<std::unique_ptr<Signer>> OpenOrCreate(const std::string& path);
  // RFC 8032 secret seed; for test vectors.
  static absl::StatusOr<std::unique_ptr<Signer>> FromSeed(const std::array<uint8_t, 32>& seed);
  virtual ~Signer() = default;
  Signer(const Signer&) = delete;
  Signer& operator=(const Signer&) = delete;

  // 64 bytes that public_key() verifies; deterministic for a key in memory. SIGNING_FAILED when
  // OpenSSL itself fails; a program's errors are in command_signer.h.
  virtual absl::StatusOr<std::string> Sign(std::string_view message) const = 0;
  virtual const PublicKey& public_key() const = 0;
  std::string key_id() const { return public_key().key_id(); }

 protected:
  Signer() = default;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_SIGNER_H_
