// Device memory, pinned memory, streams and events as objects. None can be copied; sizes in bytes.

#ifndef ASSAY_WORKER_REPLAY_CUDA_MEMORY_H_
#define ASSAY_WORKER_REPLAY_CUDA_MEMORY_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "storage/base/status.h"

namespace assay::cuda {

inline absl::Status CheckCuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string text = std::string(call) + ": " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) {
    return ExhaustedError("OUT_OF_MEMORY", text + "; use a smaller row tile or more ranks");
  }
  return InternalError("DEVICE_FAILED", text);
}

// Memory that only grows; contents are lost then.
template <cudaError_t (*kAllocate)(void**, size_t), cudaError_t (*kFree)(void*)>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { Free(); }

  absl::Status Reserve(uint64_t bytes) {
    if (bytes <= size_) return absl::OkStatus();
    Free();
    const absl::Status status = CheckCuda(kAllocate(&data_, bytes), "allocating memory");
    if (status.ok()) size_ = bytes;
    return status;
  }
  void Free() {
    if (data_ != nullptr) kFree(data_);
    data_ = nullptr;
    size_ = 0;
  }
  template <typename T = uint8_t>
  T* as() const {
    return static_cast<T*>(data_);
  }
  uint64_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  uint64_t size_ = 0;
};

inline cudaError_t AllocateDevice(void** p, size_t n) { return cudaMalloc(p, n); }
inline cudaError_t AllocatePinned(void** p, size_t n) {
  return cudaHostAlloc(p, n, cudaHostAllocDefault);
}
using DeviceBuffer = Buffer<AllocateDevice, cudaFree>;
using PinnedBuffer = Buffer<AllocatePinned, cudaFreeHost>;

class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  // `urgent`: before the others when both have work.
  absl::Status Make(bool urgent) {
    int least = 0, greatest = 0;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    return CheckCuda(
        cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least),
        "cudaStreamCreateWithPriority");
  }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  absl::Status Make() { return CheckCuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  absl::Status Record(const Stream& stream) {
    return CheckCuda(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
  }
  absl::Status Wait() const {
    return CheckCuda(cudaEventSynchronize(event_), "waiting for the GPU");
  }
  absl::Status Block(const Stream& stream) const {
    return CheckCuda(cudaStreamWaitEvent(stream.get(), event_, 0), "cudaStreamWaitEvent");
  }
  // Seconds from `start` to this; both have happened.
  double Since(const Event& start) const {
    float ms = 0;
    return cudaEventElapsedTime(&ms, start.event_, event_) == cudaSuccess ? ms * 1e-3 : 0.0;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace assay::cuda

#endif  // ASSAY_WORKER_REPLAY_CUDA_MEMORY_H_
