// The RFC 6962 (section 2) Merkle tree over an append-only list of leaves, with SHA-256.
//
// Only hashes of complete subtrees are ever stored: node (level, index) covers leaves
// [index * 2^level, (index + 1) * 2^level). They never change once written, so an append only adds
// rows, and every proof and root of every size up to the current one can be formed from them.

#ifndef ASSAY_STORAGE_SEAL_MERKLE_H_
#define ASSAY_STORAGE_SEAL_MERKLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/digest.h"

namespace assay {

struct LogNode {
  uint32_t level = 0;
  uint64_t index = 0;
  DigestBytes hash{};
};

// Where a log's node hashes are kept. Implementations: MemoryLog, and the catalogue's.
class LogReader {
 public:
  virtual ~LogReader() = default;
  // Number of leaves.
  virtual uint64_t size() const = 0;
  // Hash of a complete subtree; LOG_NODE_MISSING when it was never written.
  virtual absl::StatusOr<DigestBytes> Node(uint32_t level, uint64_t index) const = 0;
};

// What appending one leaf writes. All nodes and the new size belong in one atomic batch.
struct LogAppend {
  uint64_t leaf_index = 0;
  DigestBytes leaf_hash{};
  std::vector<LogNode> nodes;  // the leaf itself first, then the subtrees that it completes
  uint64_t new_size = 0;
  DigestBytes root{};  // of the tree with the new leaf
};

// For tests and for logs that live only as long as a process.
class MemoryLog : public LogReader {
 public:
  uint64_t size() const override { return size_; }
  absl::StatusOr<DigestBytes> Node(uint32_t level, uint64_t index) const override;
  void Apply(const LogAppend& append);

 private:
  uint64_t size_ = 0;
  std::map<std::pair<uint32_t, uint64_t>, DigestBytes> nodes_;
};

DigestBytes LogLeafHash(std::string_view leaf);  // SHA-256(0x00 || leaf)
DigestBytes LogNodeHash(const DigestBytes& left,
                        const DigestBytes& right);  // SHA-256(0x01 || left || right)
DigestBytes EmptyLogRoot();                         // SHA-256 of nothing

// Errors of the following: LOG_RANGE for an index or size beyond the log, and the reader's.
absl::StatusOr<LogAppend> PrepareAppend(const LogReader& log, std::string_view leaf);
absl::StatusOr<DigestBytes> LogRoot(const LogReader& log, uint64_t size);
absl::StatusOr<std::vector<DigestBytes>> InclusionProof(const LogReader& log, uint64_t index,
                                                        uint64_t size);
absl::StatusOr<std::vector<DigestBytes>> ConsistencyProof(const LogReader& log, uint64_t old_size,
                                                          uint64_t new_size);

// `log` as it will be after `append`, for proofs before the batch is written. Both must outlive it.
class AppendedLog : public LogReader {
 public:
  AppendedLog(const LogReader& log, const LogAppend& append) : log_(log), append_(append) {}
  uint64_t size() const override { return append_.new_size; }
  absl::StatusOr<DigestBytes> Node(uint32_t level, uint64_t index) const override;

 private:
  const LogReader& log_;
  const LogAppend& append_;
};

// RFC 9162 2.1.3.2 and 2.1.4.2. Take nothing on trust: any count, any index.
bool VerifyInclusion(const DigestBytes& leaf_hash, uint64_t index, uint64_t size,
                     std::span<const DigestBytes> proof, const DigestBytes& root);
bool VerifyConsistency(uint64_t old_size, uint64_t new_size, std::span<const DigestBytes> proof,
                       const DigestBytes& old_root, const DigestBytes& new_root);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_MERKLE_H_
