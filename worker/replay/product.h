// Logits of one leaf: hidden rows times the leaf's head rows, through oneDNN.
//
// Each output element is one dot product over the whole width, in an order that depends on the
// width alone: K is never split, and the self-test (startup_check.h) checks that M, N and the
// threads around it do not matter.

#ifndef ASSAY_WORKER_REPLAY_PRODUCT_H_
#define ASSAY_WORKER_REPLAY_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/replay/replay.h"

namespace assay {

// Decides what oneDNN may use: AMX where the CPU has it, else AVX512-BF16. The two sum in different
// orders, so machines that share a run need the same: ASSAY_REPLAY_ISA=avx512_core_bf16 in the
// environment keeps to AVX512-BF16 everywhere (avx512_core_amx is the default), and the identity
// says which it was. Only the first call in a process can, and it takes the place of
// ONEDNN_MAX_CPU_ISA. ISA_UNKNOWN; ISA_NOT_PINNED when oneDNN was used before with more.
absl::Status PinOnednn();
inline constexpr char kAmxIsa[] = "avx512_core_amx";
std::string OnednnVersion();
std::string OnednnIsa();  // effective, after PinOnednn
bool HasAvx512Bf16();     // CPU and effective oneDNN instruction set (AMX has it too)

// Head rows of one leaf in oneDNN's blocked layout (bf16, or f32 widened exactly). Immutable after
// packing.
class PackedLeaf {
 public:
  // `rows` is bf16 [columns, width], may be unaligned. `backend` is not kAuto. Errors
  // PRODUCT_FAILED.
  static absl::StatusOr<std::unique_ptr<PackedLeaf>> Pack(std::span<const uint8_t> rows,
                                                          uint64_t columns, uint64_t width,
                                                          ReplayBackend backend);
  ~PackedLeaf();

  uint64_t columns() const;
  uint64_t bytes() const;       // of the blocked layout
  const uint8_t* data() const;  // its first byte, for bringing it nearer only

  // out [rows, columns] fp32 = hidden [rows, width] (bf16 or f32 as the backend wants, 64-byte
  // aligned rows buffer). Thread-safe; runs in the calling thread.
  absl::Status Multiply(const void* hidden, uint64_t rows, float* out) const;

 private:
  absl::Status MultiplyRows(const void* hidden, uint64_t rows, float* out) const;
  struct State;
  explicit PackedLeaf(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_PRODUCT_H_
