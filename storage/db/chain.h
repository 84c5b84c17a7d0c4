// The hash chain over committed batches.

#ifndef ASSAY_STORAGE_DB_CHAIN_H_
#define ASSAY_STORAGE_DB_CHAIN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/base/digest.h"

namespace assay {

struct ChainLink {
  uint64_t seq = 0;
  std::string previous;   // 32 bytes
  std::string mutations;  // SHA-256 over the batch
  std::string hash;       // SHA-256(seq as 8 bytes big-endian, previous, mutations)
};

ChainLink NextLink(uint64_t last_seq, const std::string& last_hash,
                   const std::string& mutations_digest);

// Digest of one batch: for each put, lengths (8 bytes big-endian) and bytes of key and value.
class BatchDigest {
 public:
  void Add(std::string_view key, std::string_view value);
  // A removed key counts as one with a value of 2^64 - 1 bytes, which no row has.
  void AddRemoval(std::string_view key);
  std::string Finish();  // 32 bytes

 private:
  Sha256 hash_;
};

// Stored form of a link: "AsLk", format version, CRC-32C, message. Decode: STORE_DAMAGED,
// STORE_VERSION.
std::string EncodeLink(const ChainLink& link);
absl::StatusOr<ChainLink> DecodeLink(std::string_view bytes, std::string_view where);

// `link` must follow (last_seq, last_hash); STORE_DAMAGED otherwise.
absl::Status CheckLink(const ChainLink& link, uint64_t last_seq, const std::string& last_hash);

}  // namespace assay

#endif  // ASSAY_STORAGE_DB_CHAIN_H_
