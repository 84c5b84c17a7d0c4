#include "storage/seal/merkle.h"

#include <bit>
#include <string>

#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

absl::Status RangeError(const std::string& what) { return InvalidError("LOG_RANGE", what); }

// Largest power of two below n; n >= 2.
uint64_t SplitPoint(uint64_t n) { return std::bit_floor(n - 1); }

// Hash of leaves [begin, end): MTH of RFC 6962 2.1, from stored complete subtrees. `begin` is a
// multiple of the largest power of two not above end - begin, as every split of the RFC gives.
absl::StatusOr<DigestBytes> RangeHash(const LogReader& log, uint64_t begin, uint64_t end) {
  const uint64_t n = end - begin;
  if (std::has_single_bit(n)) {
    const int level = std::countr_zero(n);
    return log.Node(static_cast<uint32_t>(level), begin >> level);
  }
  const uint64_t k = SplitPoint(n);
  ASSAY_ASSIGN_OR_RETURN(const DigestBytes left, RangeHash(log, begin, begin + k));
  ASSAY_ASSIGN_OR_RETURN(const DigestBytes right, RangeHash(log, begin + k, end));
  return LogNodeHash(left, right);
}

// PATH(m, D[begin:end]) of RFC 6962 2.1.1.
absl::Status Path(const LogReader& log, uint64_t m, uint64_t begin, uint64_t end,
                  std::vector<DigestBytes>* out) {
  const uint64_t n = end - begin;
  if (n == 1) return absl::OkStatus();
  const uint64_t k = SplitPoint(n);
  const bool left = m < k;
  ASSAY_RETURN_IF_ERROR(left ? Path(log, m, begin, begin + k, out)
                             : Path(log, m - k, begin + k, end, out));
  ASSAY_ASSIGN_OR_RETURN(const DigestBytes sibling,
                         left ? RangeHash(log, begin + k, end) : RangeHash(log, begin, begin + k));
  out->push_back(sibling);
  return absl::OkStatus();
}

// SUBPROOF(m, D[begin:end], whole) of RFC 6962 2.1.2.
absl::Status Subproof(const LogReader& log, uint64_t m, uint64_t begin, uint64_t end, bool whole,
                      std::vector<DigestBytes>* out) {
  const uint64_t n = end - begin;
  if (m == n) {
    if (whole) return absl::OkStatus();
    ASSAY_ASSIGN_OR_RETURN(const DigestBytes hash, RangeHash(log, begin, end));
    out->push_back(hash);
    return absl::OkStatus();
  }
  const uint64_t k = SplitPoint(n);
  const bool left = m <= k;
  ASSAY_RETURN_IF_ERROR(left ? Subproof(log, m, begin, begin + k, whole, out)
                             : Subproof(log, m - k, begin + k, end, false, out));
  ASSAY_ASSIGN_OR_RETURN(const DigestBytes other,
                         left ? RangeHash(log, begin + k, end) : RangeHash(log, begin, begin + k));
  out->push_back(other);
  return absl::OkStatus();
}

}  // namespace

DigestBytes LogLeafHash(std::string_view leaf) {
  Sha256 hash;
  hash.Update(std::string_view("\0", 1));
  hash.Update(leaf);
  return hash.Finish();
}

DigestBytes LogNodeHash(const DigestBytes& left, const DigestBytes& right) {
  Sha256 hash;
  hash.Update(std::string_view("\x01", 1));
  hash.Update(std::span<const uint8_t>(left));
  hash.Update(std::span<const uint8_t>(right));
  return hash.Finish();
}

DigestBytes EmptyLogRoot() { return Sha256Of(""); }

absl::StatusOr<DigestBytes> MemoryLog::Node(uint32_t level, uint64_t index) const {
  const auto it = nodes_.find({level, index});
  if (it == nodes_.end()) {
    return DataLossError("LOG_NODE_MISSING", "log node " + std::to_string(level) + "/" +
                                                 std::to_string(index) + " was never written");
  }
  return it->second;
}

void MemoryLog::Apply(const LogAppend& append) {
  for (const LogNode& node : append.nodes) nodes_[{node.level, node.index}] = node.hash;
  size_ = append.new_size;
}

absl::StatusOr<DigestBytes> AppendedLog::Node(uint32_t level, uint64_t index) const {
  for (const LogNode& node : append_.nodes) {
    if (node.level == level && node.index == index) return node.hash;
  }
  return log_.Node(level, index);
}

absl::StatusOr<LogAppend> PrepareAppend(const LogReader& log, std::string_view leaf) {
  LogAppend out;
  out.leaf_index = log.size();
  out.new_size = out.leaf_index + 1;
  out.leaf_hash = LogLeafHash(leaf);
  out.nodes.push_back({0, out.leaf_index, out.leaf_hash});
  // The new leaf completes one subtree for every trailing one bit of its index.
  DigestBytes hash = out.leaf_hash;
  uint64_t index = out.leaf_index;
  for (uint32_t level = 0; index & 1; ++level, index >>= 1) {
    ASSAY_ASSIGN_OR_RETURN(const DigestBytes left, log.Node(level, index - 1));
    hash = LogNodeHash(left, hash);
    out.nodes.push_back({level + 1, index >> 1, hash});
  }
  ASSAY_ASSIGN_OR_RETURN(out.root, LogRoot(AppendedLog(log, out), out.new_size));
  return out;
}

absl::StatusOr<DigestBytes> LogRoot(const LogReader& log, uint64_t size) {
  if (size > log.size()) {
    return RangeError("the log has " + std::to_string(log.size()) + " leaves, not " +
                      std::to_string(size));
  }
  if (size == 0) return EmptyLogRoot();
  return RangeHash(log, 0, size);
}

absl::StatusOr<std::vector<DigestBytes>> InclusionProof(const LogReader& log, uint64_t index,
                                                        uint64_t size) {
  if (size > log.size() || index >= size) {
    return RangeError("leaf " + std::to_string(index) + " of " + std::to_string(size) +
                      " is beyond a log of " + std::to_string(log.size()) + " leaves");
  }
  std::vector<DigestBytes> out;
  ASSAY_RETURN_IF_ERROR(Path(log, index, 0, size, &out));
  return out;
}

absl::StatusOr<std::vector<DigestBytes>> ConsistencyProof(const LogReader& log, uint64_t old_size,
                                                          uint64_t new_size) {
  if (new_size > log.size() || old_size > new_size) {
    return RangeError("sizes " + std::to_string(old_size) + " and " + std::to_string(new_size) +
                      " are beyond a log of " + std::to_string(log.size()) + " leaves");
  }
  std::vector<DigestBytes> out;
  if (old_size == 0 || old_size == new_size) return out;
  ASSAY_RETURN_IF_ERROR(Subproof(log, old_size, 0, new_size, true, &out));
  return out;
}

bool VerifyInclusion(const DigestBytes& leaf_hash, uint64_t index, uint64_t size,
                     std::span<const DigestBytes> proof, const DigestBytes& root) {
  if (index >= size) return false;
  uint64_t fn = index, sn = size - 1;
  DigestBytes hash = leaf_hash;
  for (const DigestBytes& p : proof) {
    if (sn == 0) return false;
    if ((fn & 1) || fn == sn) {
      hash = LogNodeHash(p, hash);
      while (!(fn & 1) && fn != 0) {
        fn >>= 1;
        sn >>= 1;
      }
    } else {
      hash = LogNodeHash(hash, p);
    }
    fn >>= 1;
    sn >>= 1;
  }
  return sn == 0 && hash == root;
}

bool VerifyConsistency(uint64_t old_size, uint64_t new_size, std::span<const DigestBytes> proof,
                       const DigestBytes& old_root, const DigestBytes& new_root) {
  if (old_size > new_size) return false;
  if (old_size == new_size) return proof.empty() && old_root == new_root;
  if (old_size == 0) return proof.empty() && old_root == EmptyLogRoot();
  std::vector<DigestBytes> path;
  if (std::has_single_bit(old_size)) path.push_back(old_root);
  path.insert(path.end(), proof.begin(), proof.end());
  if (path.empty()) return false;
  uint64_t fn = old_size - 1, sn = new_size - 1;
  while (fn & 1) {
    fn >>= 1;
    sn >>= 1;
  }
  DigestBytes fr = path.front(), sr = path.front();
  for (size_t i = 1; i < path.size(); ++i) {
    if (sn == 0) return false;
    if ((fn & 1) || fn == sn) {
      fr = LogNodeHash(path[i], fr);
      sr = LogNodeHash(path[i], sr);
      while (!(fn & 1) && fn != 0) {
        fn >>= 1;
        sn >>= 1;
      }
    } else {
      sr = LogNodeHash(sr, path[i]);
    }
    fn >>= 1;
    sn >>= 1;
  }
  return sn == 0 && fr == old_root && sr == new_root;
}

}  // namespace assay
