// Replay: full-vocabulary distributions of one reference and its candidates, compared position by
// position.
//
// This is the algorithm of design 4 and nothing else: no files, JSON or gRPC. Heads are spans,
// operands are functions that give the rows of one context. docs/metric.md says what is computed
// and with which error.
//
// A position's outputs are the same bits for any thread count, row tile, grouping of contexts into
// plans, and any number of ranks (1, 2, 4, 8, ...; ranks own contiguous ranges of fixed vocabulary
// leaves).

#ifndef ASSAY_WORKER_REPLAY_REPLAY_H_
#define ASSAY_WORKER_REPLAY_REPLAY_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/collective.h"

namespace assay {

// Outputs per position, in file order.
inline constexpr int kReplayF64Count = 9;
inline constexpr int kReplayI32Count = 5;
inline constexpr std::array<std::string_view, kReplayF64Count> kReplayF64Names = {
    "kl_ref_cand", "kl_cand_ref",  "jsd_bits", "nll_ref",    "nll_cand",
    "entropy_ref", "entropy_cand", "delta_p",  "accept_rate"};
inline constexpr std::array<std::string_view, kReplayI32Count> kReplayI32Names = {
    "top1_ref", "top1_cand", "ties_ref", "ties_cand", "rank_top1_ref"};
// rank_top1_ref counts the candidate's columns that beat the reference's top-1: a greater logit, or
// an equal one with a lower id. So it is 0 exactly when top1_cand == top1_ref, and < k when that
// token is in the candidate's top k.

// What numbers are called the logits (design 4). kExact: fp32 products and sums, never rounded
// again. kFp64Audit: dot products in fp64 (slow). kTorchBf16: fp32 logits rounded to bf16 once,
// sums in fp64.
enum class ReplayPolicy { kExact, kFp64Audit, kTorchBf16 };
std::string_view ReplayPolicyName(ReplayPolicy policy);  // "exact", "fp64-audit", "torch-bf16"
// REPLAY_POLICY_UNKNOWN names those that exist.
absl::StatusOr<ReplayPolicy> ParseReplayPolicy(std::string_view name);

// kAuto: cpu-bf16 where the CPU has AVX512-BF16 and max|hidden| and max|head| of the plan stay
// below 2^60 (AVX512-BF16 flushes bf16 subnormals to zero; below that bound this cannot be seen),
// else cpu-f32; never cuda-bf16 (docs/gpu.md), which is asked for by name and only knows kExact.
// ASSAY_REPLAY_BACKEND=cpu-bf16|cpu-f32|cuda-bf16 in the environment takes the place of kAuto.
enum class ReplayBackend { kAuto, kCpuBf16, kCpuF32, kCudaBf16 };
// "auto", "cpu-bf16", "cpu-f32", "cuda-bf16"
std::string_view ReplayBackendName(ReplayBackend backend);
absl::StatusOr<ReplayBackend> ParseReplayBackend(std::string_view name);

enum class RowType { kBf16, kF32 };

// Rows of one context of one operand. `bytes` is row-major little-endian [rows, width] and need not
// be aligned; `owner` (a mapped file, a buffer) keeps it alive.
struct RowBlock {
  std::span<const uint8_t> bytes;
  RowType type = RowType::kBf16;
  uint64_t rows = 0;
  uint64_t width = 0;
  std::shared_ptr<const void> owner;
};

// A language-model head: bf16 [vocab, hidden], row-major, need not be aligned; stays valid during
// the call. A rank reads the rows of its own leaves only.
struct ReplayHead {
  std::string id;
  std::span<const uint8_t> bytes;
  uint64_t vocab = 0;
  uint64_t hidden = 0;
  // Content digest or other name that is equal exactly when the bytes are: an engine keeps a packed
  // head between runs under it. "" = never kept.
  std::string cache_key;
  // What the model does to its head's product before the softcap: logit = scale * dot + bias, in
  // fp64 and not rounded again (docs/metric.md). Not with torch-bf16.
  double scale = 1;              // > 0 and finite
  std::vector<float> bias = {};  // [vocab], or empty for none
  // Called with rows that were read and are not needed soon, from several threads: memory of a
  // mapped file can leave the process (storage/base/mapped_pages.h). May be empty.
  std::function<void(std::span<const uint8_t>)> release = {};

  bool affine() const { return scale != 1 || !bias.empty(); }
};

enum class OperandKind { kHidden, kLogits };

// Gives the rows of context `i` (an index into ReplayPlan::contexts); called from one thread at a
// time, possibly more than once for a context. kHidden: [rows, hidden], F32 is rounded to bf16
// (nearest even). kLogits: F32 [rows, vocab].
using RowProvider = std::function<absl::StatusOr<RowBlock>(size_t i)>;

struct ReplayOperand {
  std::string id;
  OperandKind kind = OperandKind::kHidden;
  RowProvider rows;
};

struct ReplayContext {
  int64_t index = 0;  // the suite's number, for messages
  // Observed next token of each row (so its size is the number of rows); -1 = none: NLL and delta_p
  // are NaN there.
  std::vector<int32_t> observed;
};

// One side of a comparison. `head` is ignored for logits operands.
struct ReplaySide {
  std::string operand;
  std::string head;
};

struct ReplayComparison {
  std::string id;
  ReplaySide ref;
  ReplaySide cand;
};

// Each distinct (operand, head) pair is multiplied once per row tile, however many comparisons use
// it.
struct ReplayPlan {
  ReplayPolicy policy = ReplayPolicy::kExact;
  ReplayBackend backend = ReplayBackend::kAuto;
  uint64_t row_tile = 64;  // rows of a context computed together; 0 = the whole context
  std::optional<uint64_t> valid_vocab;  // only the first so many columns exist
  std::optional<double> softcap;        // cap * tanh(logit / cap), once, in fp64; > 0
  // torch-bf16 only: kl_ref_cand and jsd_bits by the published float32 steps over chunks of so many
  // columns (torch_sums.h); they can be negative then.
  std::optional<uint64_t> vocab_chunk;
  bool allow_infinite = false;  // allow KL(ref || cand) = +inf instead of refusing the unit
  std::vector<ReplayHead> heads;
  std::vector<ReplayOperand> operands;
  std::vector<ReplayContext> contexts;
  std::vector<ReplayComparison> comparisons;
};

// Outputs of one comparison in one context, one value per row, in the order of the name arrays.
struct ReplayRows {
  std::array<std::vector<double>, kReplayF64Count> f64;
  std::array<std::vector<int32_t>, kReplayI32Count> i32;
};

// Largest absolute values seen, decided before the first product.
struct ReplayMaximum {
  std::string id;  // of the operand or head
  double value = 0;
};

struct ReplayResult {
  // rows[comparison][context], the same on every rank.
  std::vector<std::vector<ReplayRows>> rows;
  std::vector<ReplayMaximum> max_hidden;           // one per hidden operand
  std::vector<ReplayMaximum> max_head;             // one per head, over the kept columns
  ReplayBackend backend = ReplayBackend::kCpuF32;  // the one used, never kAuto
};

// Work of this rank in one run. multiply_adds counts rows * own columns * hidden per product;
// weight_bytes counts the bf16 head bytes that this rank holds for the plan.
struct ReplayCounters {
  uint64_t multiply_adds = 0;
  uint64_t weight_bytes = 0;
};

// Why rows were refused, attached to the returned status. RefusalOf gives it back (nothing for
// other errors). Reasons: NON_FINITE_INPUT, NO_FINITE_COLUMN, TOKEN_OUT_OF_RANGE,
// INFINITE_POSITION, looked for in the order docs/metric.md states, so that all ranks, tiles and
// thread counts name the same one.
struct ReplayRefusal {
  std::string reason;
  std::string operand;              // "" where none is at fault (token)
  std::optional<int64_t> context;   // ReplayContext::index; absent for a head
  std::optional<int64_t> position;  // row within the context; absent for a head
  std::optional<int64_t>
      column;  // vocabulary id, or hidden element for a hidden state; absent for a whole row
};
std::optional<ReplayRefusal> RefusalOf(const absl::Status& status);

// done and total count context rows; false = cancel (status CANCELLED, reason REPLAY_CANCELLED).
// All ranks stop together when one says so. May be empty.
using ReplayProgress = std::function<bool(uint64_t done, uint64_t total)>;

// Facts that the bits depend on; equal identities give equal bits. Stable text.
struct ReplayIdentity {
  std::string backend;         // that kAuto takes on this machine for ordinary operands
  std::string onednn_version;  // "2.6.3"
  std::string onednn_isa;      // effective, e.g. "avx512_core_amx"
  std::string kernels;         // version of Assay's own vector arithmetic, e.g. "vec8/3"
  // SHA-256 over logits and outputs of a small built-in problem; the self-test has checked that
  // they are the same bits for several row and column splits and thread counts.
  std::string self_test_sha256_bf16;  // "" where the CPU lacks AVX512-BF16
  std::string self_test_sha256_f32;
  // GPU, driver, cuBLASLt, pinned algorithm and kernel version, and the self-test's digest; ""
  // where cuda-bf16 is not available.
  std::string cuda;
  std::string self_test_sha256_cuda;
};

// Keeps threads, packed heads and the memory of a tile between runs. One run at a time.
class ReplayEngine {
 public:
  // Starts the threads and runs the self-test (tens of milliseconds, the first time in a process).
  // SELF_TEST_FAILED when the machine's products depend on the way they are cut. Call it before
  // other users of oneDNN in the process: it decides oneDNN's instruction set (product.h).
  static absl::StatusOr<std::unique_ptr<ReplayEngine>> Create(int threads);
  ~ReplayEngine();

  const ReplayIdentity& identity() const;

  // Runs `plan` together with the other ranks of `collective`, all of which pass an equal plan.
  // Errors: PLAN_INVALID (names the field), SHAPE_MISMATCH (names operand, context), a refusal
  // (above), COLLECTIVE_FAILED, REPLAY_CANCELLED. `counters` may be null; it is added to. Memory:
  // head slices of this rank (bf16, or f32 for cpu-f32), one row tile of logits per (operand, head)
  // pair, two contexts of rows per operand, and a few MiB.
  absl::StatusOr<ReplayResult> Run(const ReplayPlan& plan, Collective& collective,
                                   const ReplayProgress& progress, ReplayCounters* counters);

 private:
  struct State;
  explicit ReplayEngine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// ReplayEngine::Create and Run in one call.
absl::StatusOr<ReplayResult> RunReplay(const ReplayPlan& plan, Collective& collective, int threads,
                                       const ReplayProgress& progress, ReplayCounters* counters);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_REPLAY_H_
