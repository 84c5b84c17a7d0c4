// The keys that a log has been signed with, assay-keys/1: an ordered list, the active one last.
// Each key says from which leaf on it signs; the key after it ends it. An entry is signed by the
// key before it and by itself, so who trusts one key of the list can follow it to all others, and
// nobody can be made the heir of a key without that key.
//
//   {"schema":"assay-keys/1","keys":[{"key_id","public_key","previous_key_id","first_leaf",
//     "create_time","signatures":[{"keyid","sig"}, ...]}, ...]}
//
// Signed bytes: the DSSE pre-authentication encoding of type application/vnd.assay.key+json over
// the RFC 8785 form of the entry without "signatures". The first entry has previous_key_id "" and
// its own signature alone; the others the previous key's, then their own.

#ifndef ASSAY_STORAGE_SEAL_KEY_LIST_H_
#define ASSAY_STORAGE_SEAL_KEY_LIST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/seal/signer.h"

namespace assay {

inline constexpr std::string_view kKeyListSchema = "assay-keys/1";
inline constexpr size_t kKeysMax = 1024;
inline constexpr uint64_t kKeyListBytesMax = uint64_t{2} << 20;

struct LogKey {
  PublicKey key;
  uint64_t first_leaf = 0;           // of the leaves that it signs
  std::optional<uint64_t> end_leaf;  // one past the last one; none: the active key
  int64_t create_ms = 0;             // when it was made, ms since epoch
};

class KeyList {
 public:
  // A new log's list: `signer` alone, from leaf 0 on.
  static absl::StatusOr<KeyList> Begin(const Signer& signer, int64_t now_ms);
  // KEY_LIST_INVALID, starting with `where`: another form, a signature that does not verify, leaves
  // that go back, a key listed twice.
  static absl::StatusOr<KeyList> Parse(std::string_view bytes, std::string_view where);

  // This list with `next` as the active key from `first_leaf` on; `active` signs the handover.
  absl::StatusOr<KeyList> Rotate(const Signer& active, const Signer& next, uint64_t first_leaf,
                                 int64_t now_ms) const;

  const std::vector<LogKey>& keys() const { return keys_; }
  const LogKey& active() const { return keys_.back(); }
  const LogKey* Find(const PublicKey& key) const;  // null when it is not listed
  // OK when `key` may have signed leaf `leaf`: KEY_UNKNOWN, KEY_RETIRED.
  absl::Status CheckLeaf(const PublicKey& key, uint64_t leaf) const;
  const std::string& bytes() const { return bytes_; }  // RFC 8785

 private:
  std::vector<LogKey> keys_;
  std::string bytes_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_KEY_LIST_H_
