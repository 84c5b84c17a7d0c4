// Signed log checkpoints: the C2SP tlog-checkpoint body inside a C2SP signed note with one Ed25519
// signature.
//
//   <origin>\n<size>\n<base64 root>\n\n— <origin> <base64(key hash[4] || signature[64])>\n
//
// The signature covers the three lines; key hash = first four bytes of
// SHA-256(name || 0x0A || 0x01 || public key). The key's name is the origin.

#ifndef ASSAY_STORAGE_SEAL_CHECKPOINT_H_
#define ASSAY_STORAGE_SEAL_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/base/digest.h"
#include "storage/seal/signer.h"

namespace assay {

inline constexpr uint64_t kLogSizeMax = uint64_t{1} << 53;  // JSON holds it exactly

struct LogCheckpoint {
  std::string origin;  // [A-Za-z0-9./:_-]{1,128}
  uint64_t size = 0;
  DigestBytes root{};
};

struct SignedCheckpoint {
  LogCheckpoint checkpoint;
  std::string body;       // the signed bytes
  std::string key_hash;   // 4 bytes
  std::string signature;  // 64 bytes
};

bool IsLogOrigin(std::string_view origin);
std::string CheckpointBody(const LogCheckpoint& checkpoint);
absl::StatusOr<std::string> SignCheckpoint(const LogCheckpoint& checkpoint, const Signer& signer);
// CHECKPOINT_INVALID unless `note` is exactly what SignCheckpoint would write for some key.
absl::StatusOr<SignedCheckpoint> ParseCheckpoint(std::string_view note);
// True when the note's key hash and signature are `key`'s.
bool CheckpointSignedBy(const SignedCheckpoint& note, const PublicKey& key);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_CHECKPOINT_H_
