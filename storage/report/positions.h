// Per-position results of a replay: the arrays that every statistic of a report is computed from.

#ifndef ASSAY_STORAGE_REPORT_POSITIONS_H_
#define ASSAY_STORAGE_REPORT_POSITIONS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/format/safetensors.h"

namespace assay {

// Outputs in the order in which result files hold them. Float64 ones: KL and entropies and NLL in
// nats, jsd_bits in bits, delta_p and accept_rate as probabilities.
enum class F64Output {
  kKlRefCand,
  kKlCandRef,
  kJsdBits,
  kNllRef,
  kNllCand,
  kEntropyRef,
  kEntropyCand,
  kDeltaP,
  kAcceptRate,
};
// Int32 ones: token ids (lowest on ties), numbers of columns.
enum class I32Output { kTop1Ref, kTop1Cand, kTiesRef, kTiesCand, kRankTop1Ref };

inline constexpr std::array<std::string_view, 9> kF64Outputs = {
    "kl_ref_cand", "kl_cand_ref",  "jsd_bits", "nll_ref",    "nll_cand",
    "entropy_ref", "entropy_cand", "delta_p",  "accept_rate"};
inline constexpr std::array<std::string_view, 5> kI32Outputs = {"top1_ref", "top1_cand", "ties_ref",
                                                                "ties_cand", "rank_top1_ref"};

// All outputs of one comparison under one head, contexts in suite order, positions in order inside
// a context. Every vector has `positions` elements.
struct PositionArrays {
  std::array<std::vector<double>, 9> f64;
  std::array<std::vector<int32_t>, 5> i32;
  uint64_t positions = 0;

  const std::vector<double>& operator[](F64Output o) const { return f64[static_cast<size_t>(o)]; }
  const std::vector<int32_t>& operator[](I32Output o) const { return i32[static_cast<size_t>(o)]; }
};

// POSITIONS_INVALID, naming `where`, output and position, when a length is wrong or a value cannot
// come from a replay: NaN anywhere, a negative or -inf divergence, an infinite probability, a
// negative id, no tied column.
// `float32_sums`: kl_ref_cand and jsd_bits are sums of float32 values and may be a little negative.
absl::Status CheckPositionArrays(const PositionArrays& arrays, std::string_view where,
                                 bool float32_sums = false);

// Published bytes: little-endian, no header.
std::string F64Bytes(std::span<const double> values);
std::string I32Bytes(std::span<const int32_t> values);
// POSITIONS_INVALID when the length is no multiple of the element size.
absl::StatusOr<std::vector<double>> F64FromBytes(std::string_view bytes, std::string_view where);
absl::StatusOr<std::vector<int32_t>> I32FromBytes(std::string_view bytes, std::string_view where);

// "kl_ref_cand.f64" / "top1_ref.i32": file name of an output inside positions/HEAD/.
std::string PositionFileName(F64Output output);
std::string PositionFileName(I32Output output);

// What one context contributes: its suite index and number of scored positions.
struct ContextRows {
  int64_t index;
  uint64_t rows;
};

// Puts the arrays of `comparison` together from unit result files (tensors
// "<comparison>|<index %06d>|<output>", F64 or I32, shape [rows]), contexts in the order given.
// A context may lie in any of the files. POSITIONS_INVALID names file and tensor when one is
// missing, lies in two files, or has another dtype or shape.
absl::StatusOr<PositionArrays> AssemblePositions(
    std::span<const std::shared_ptr<const SafetensorsFile>> files, std::string_view comparison,
    std::span<const ContextRows> contexts);

// Reads FOLDER/OUTPUT.f64|.i32 (FOLDER = .../positions/HEAD) written by WriteCandidateFiles; every
// file must hold `positions` elements. Errors name the file.
absl::StatusOr<PositionArrays> ReadPositionFolder(const std::string& folder, uint64_t positions);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_POSITIONS_H_
