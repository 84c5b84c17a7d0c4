// The capture engine: what a loaded libassay_capture.so offers.
//
// The library is the only thing linked with libtorch. A rank program opens it with dlopen, asks
// assay_capture_create for an engine and calls it through this interface, whose types are std:: and
// storage/base only.

#ifndef ASSAY_WORKER_CAPTURE_ENGINE_H_
#define ASSAY_WORKER_CAPTURE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "worker/collective/collective.h"

namespace assay {

// Raised whenever a type or a virtual function of this header changes.
inline constexpr int kCaptureAbiVersion = 1;

// One token sequence. `index` is the context's number in its suite (names the output files).
struct CaptureContext {
  int64_t index = 0;
  std::vector<int32_t> tokens;  // at least two; each in [0, vocabulary)
};

// What to capture. All ranks of a group get the same request (out_dir matters on rank 0 only).
struct CaptureRequest {
  std::string model_path;  // a GGUF file or a Hugging Face folder
  std::string transform;   // "" or canonical text, e.g. "rtn:bits=4,group=32"
  std::vector<CaptureContext> contexts;
  // Extra points to store: "embedding", "layers.N.attn", "layers.N.mlp" (outputs before the
  // residual addition), "layers.N.residual" (the stream after layer N), "final_norm". Each becomes
  // tap_<name>_NNNN.safetensors with one F32 tensor "tap" [tokens, hidden], last row included.
  std::vector<std::string> taps;
  std::string out_dir;  // existing folder; rank 0 writes hidden_NNNN.safetensors there
  int threads = 1;      // compute threads of this rank, at least 1
};

// One written file. Hidden files hold the BF16 tensor hidden_states [rows, width].
struct CaptureOutput {
  int64_t index = 0;
  std::string file;    // path: out_dir/hidden_NNNN.safetensors
  std::string sha256;  // of the file's bytes
  uint64_t bytes = 0;  // file size
  uint64_t rows = 0;   // tokens - 1: the last row scores nothing and is dropped
  uint64_t width = 0;  // hidden size
};

// What this rank really did; both fall as the tensor-parallel degree grows.
struct CaptureCounters {
  uint64_t multiply_adds = 0;  // products of every matrix multiplication of this call
  uint64_t weight_bytes = 0;   // float32 bytes of the layer weights that this rank holds
};

// Not thread-safe: one call at a time.
class CaptureEngine {
 public:
  virtual ~CaptureEngine() = default;

  // {"engine", "engine_version", "libtorch", "onednn", "isa", "self_test"}: what decides the bits.
  // self_test is a digest over fixed products and element-wise kernels; the call that makes it also
  // asserts that they do not depend on row split, column split or thread count, and reports a
  // failure as {"error": sentence}.
  virtual Json Identity() = 0;

  // Runs the forward pass over every context and writes the files (rank 0; the other ranks return
  // the same list of indices, rows and widths with empty `file` and `sha256`). The outputs are the
  // same bits for any collective size from 1 to 8 ranks, thread count and order or grouping of
  // contexts. The model stays loaded while (model_path, its files' inodes, sizes and times,
  // transform, rank, size) stay the same.
  // `progress` is called on every rank between batches with contexts done and total; false cancels
  // on all ranks together (CANCELLED). May be empty. `counters` may be null.
  // Errors: those of worker/capture/weights, COLLECTIVE_FAILED, TOKEN_OUT_OF_RANGE (names context
  // and position), CONTEXT_TOO_SHORT, CAPTURE_LIMIT, UNKNOWN_TAP, NON_FINITE_HIDDEN (names context
  // and row), KERNEL_NOT_INVARIANT, CAPTURE_FAILED (libtorch or oneDNN), FILE_* from writing.
  virtual absl::StatusOr<std::vector<CaptureOutput>> Capture(
      const CaptureRequest& request, Collective& collective,
      const std::function<bool(uint64_t done, uint64_t total)>& progress,
      CaptureCounters* counters) = 0;
};

}  // namespace assay

// A new engine owned by the caller (delete it before dlclose), or null when `abi_version` is not
// kCaptureAbiVersion of this library.
extern "C" assay::CaptureEngine* assay_capture_create(int abi_version);

#endif  // ASSAY_WORKER_CAPTURE_ENGINE_H_
