// What a replay needs of a GPU, so that the algorithm (device_run.h) knows nothing of CUDA: two
// tiles
// ("slots") in flight, and per tile the two passes. Implemented by the CUDA plugin (cuda_device.cc)
// and, for tests, by the host (host_device.h).
//
// One job at a time, one thread at a time. Per slot the calls come in the order Staging*,
// StartFirst, FinishFirst, ReadLogits*, StartSecond; then the slot takes its next tile, and
// FinishSecond comes before that tile's FinishFirst. Start* return at once. Errors: DEVICE_FAILED
// (names the call), OUT_OF_MEMORY, KERNEL_NOT_INVARIANT (the pinned product cannot take a shape).

#ifndef ASSAY_WORKER_REPLAY_CUDA_DEVICE_H_
#define ASSAY_WORKER_REPLAY_CUDA_DEVICE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/replay/job.h"
#include "worker/replay/kernels.h"
#include "worker/replay/passes.h"

namespace assay {

inline constexpr int kDeviceSlots = 2;
// Version of the kernels' arithmetic (cuda/core.h, cuda/leaf_pass.h): part of the kernel identity.
inline constexpr const char* kDeviceKernelsVersion = "leaf256/1";

struct DeviceIdentity {
  std::string device;     // "NVIDIA H200, sm_90"
  std::string driver;     // CUDA version of driver and runtime: "13.0/13.0"
  std::string product;    // "cublasLt 130002"
  std::string algorithm;  // the pinned one, as text
};

// One line that is equal exactly when the bits are.
std::string DescribeDevice(const DeviceIdentity& identity);

// Seconds that the device spent, by its own clock; for benchmarks.
struct DeviceTimes {
  double upload = 0, product = 0, first_pass = 0, second_pass = 0;
};

class ReplayDevice {
 public:
  virtual ~ReplayDevice() = default;

  virtual const DeviceIdentity& identity() const = 0;

  // Rows of a tile for which this job fits into the device's memory; >= 1. A guess from what is
  // free.
  virtual absl::StatusOr<uint64_t> RowsThatFit(const Job& job) = 0;

  // Makes room for tiles of `rows_max` rows and brings the rank's rows of every used head to the
  // device. Heads with a cache key stay there for later jobs. `job` must outlive the job's calls.
  virtual absl::Status Begin(const Job& job, uint64_t rows_max) = 0;

  // Memory for the rows of an operand in the slot's next tile: bf16 [rows, hidden], or fp32 [rows,
  // own columns] for stored logits.
  virtual uint8_t* Staging(int slot, size_t operand) = 0;

  // Takes the staged rows to logits and first-pass partials. `observed` has a column of the
  // vocabulary (or -1) per row.
  virtual absl::Status StartFirst(int slot, std::span<const int32_t> observed) = 0;
  // [source][row][own leaf].
  virtual absl::Status FinishFirst(int slot, std::vector<SideLeaf>* partials) = 0;

  // LogitReader (passes.h) of a slot.
  virtual absl::Status ReadLogits(int slot, std::span<const LogitPlace> places, double* out) = 0;

  // `rows` as MakePairRows gives them.
  virtual absl::Status StartSecond(int slot, std::span<const PairRow> rows) = 0;
  // [comparison][row][own leaf].
  virtual absl::Status FinishSecond(int slot, std::vector<PairLeaf>* partials) = 0;

  // The fp32 products of a source, [rows, own columns], after FinishFirst: for self-tests.
  virtual absl::Status ReadProducts(int slot, size_t source, std::vector<float>* out) = 0;

  virtual DeviceTimes times() const { return {}; }
};

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_CUDA_DEVICE_H_
