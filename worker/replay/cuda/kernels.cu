// Launches of the leaf passes: a block per leaf and row, a thread per kPerThread columns. All
// arithmetic is in core.h and leaf_pass.h; here are only shuffles and indices.

#include "worker/replay/cuda/launch.h"

namespace assay::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr unsigned kAll = 0xffffffffu;

__device__ Scan Down(const Scan& v, int by) {
  return {__shfl_down_sync(kAll, v.max, by), __shfl_down_sync(kAll, v.bad, by)};
}

__device__ SideSums Down(const SideSums& v, int by) {
  return {__shfl_down_sync(kAll, v.tail, by), __shfl_down_sync(kAll, v.weighted, by),
          __shfl_down_sync(kAll, v.argmax, by), __shfl_down_sync(kAll, v.ties, by)};
}

__device__ PairTerms Down(const PairTerms& v, int by) {
  return {__shfl_down_sync(kAll, v.forward, by),     __shfl_down_sync(kAll, v.reverse, by),
          __shfl_down_sync(kAll, v.js, by),          __shfl_down_sync(kAll, v.accept, by),
          __shfl_down_sync(kAll, v.variation, by),   __shfl_down_sync(kAll, v.beats, by),
          __shfl_down_sync(kAll, v.cand_masked, by), __shfl_down_sync(kAll, v.ref_masked, by)};
}

// Lane 0 ends with what HalvingTree makes of the lanes; the others with values nobody reads.
template <typename T>
__device__ T ReduceLanes(T value, int lanes) {
  for (int by = lanes / 2; by > 0; by /= 2) value = Merge(value, Down(value, by));
  return value;
}

// As host_pass.cc's ReduceBlock; the result is thread 0's. `shared` holds kWarps values.
template <typename T>
__device__ T ReduceBlock(T value, T* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  value = ReduceLanes(value, kWarp);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  if (warp == 0) value = ReduceLanes(shared[lane % kWarps], kWarps);
  return value;
}

__device__ LogitRule RuleAt(LogitRule rule, int64_t column) {
  if (rule.bias != nullptr) rule.bias += column;
  return rule;
}

template <bool kCap>
__global__ void __launch_bounds__(kThreads)
    SideKernel(PassShape shape, const float* tile, LogitRule whole, const int32_t* observed,
               SideLeaf* out) {
  __shared__ Scan scans[kWarps];
  __shared__ SideSums sums[kWarps];
  __shared__ Scan block_scan;
  const int thread = static_cast<int>(threadIdx.x);
  const int leaf = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y);
  const int64_t begin = shape.leaf_begin[leaf];
  const int columns = static_cast<int>(shape.leaf_begin[leaf + 1] - begin);
  const LogitRule rule = RuleAt(whole, begin);
  const float* const logits = tile + static_cast<uint64_t>(row) * shape.stride + begin;
  const Columns own = LoadColumns(logits, columns, thread);
  const Scan scan = ReduceBlock(ScanThread(own, columns, thread, rule), scans);
  if (thread == 0) block_scan = scan;
  __syncthreads();
  const Scan found = block_scan;
  const bool empty = found.bad < kLeafMax || found.max == -Infinity();
  const double top = empty ? 0.0 : Capped<kCap>(found.max, rule);
  SideSums total{0.0, 0.0, kLeafMax, 0};
  if (!empty) total = ReduceBlock(SideThread<kCap>(own, columns, thread, rule, top), sums);
  if (thread != 0) return;
  const int64_t token = observed[row] - shape.own_begin - begin;
  double value = 0.0;
  if (observed[row] >= 0 && token >= 0 && token < columns) {
    const int at = static_cast<int>(token);
    value = Capped<kCap>(RawLogit(logits[at], at, rule), rule);
  }
  out[static_cast<uint64_t>(row) * shape.leaves + leaf] = FinishSide(found, total, top, value);
}

template <bool kCap>
__global__ void __launch_bounds__(kThreads)
    PairKernel(PassShape shape, const float* ref, const float* cand, LogitRule ref_whole,
               LogitRule cand_whole, const PairRow* values, PairLeaf* out) {
  __shared__ PairTerms shared[kWarps];
  const int thread = static_cast<int>(threadIdx.x);
  const int leaf = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y);
  const int64_t begin = shape.leaf_begin[leaf];
  const int columns = static_cast<int>(shape.leaf_begin[leaf + 1] - begin);
  const uint64_t at = static_cast<uint64_t>(row) * shape.stride + begin;
  PairRow own = values[row];
  own.threshold_column -= shape.own_begin + begin;
  const PairTerms terms =
      PairThread<kCap>(ref + at, cand + at, columns, thread, RuleAt(ref_whole, begin),
                       RuleAt(cand_whole, begin), own);
  const PairTerms total = ReduceBlock(terms, shared);
  if (thread == 0) out[static_cast<uint64_t>(row) * shape.leaves + leaf] = FinishPair(total);
}

__global__ void ReadKernel(const PlaceOnDevice* places, int count, double softcap, double* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const LogitRule rule{softcap, places[i].scale, places[i].bias};
  const double raw = RawLogit(*places[i].logit, 0, rule);
  out[i] = softcap > 0 ? Capped<true>(raw, rule) : raw;
}

dim3 GridOf(const PassShape& shape) {
  return {static_cast<unsigned>(shape.leaves), static_cast<unsigned>(shape.rows), 1};
}

}  // namespace

cudaError_t LaunchSide(const PassShape& shape, const float* tile, const LogitRule& rule,
                       const int32_t* observed, SideLeaf* out, cudaStream_t stream) {
  if (rule.softcap > 0) {
    SideKernel<true><<<GridOf(shape), kThreads, 0, stream>>>(shape, tile, rule, observed, out);
  } else {
    SideKernel<false><<<GridOf(shape), kThreads, 0, stream>>>(shape, tile, rule, observed, out);
  }
  return cudaGetLastError();
}

cudaError_t LaunchPair(const PassShape& shape, const float* ref, const float* cand,
                       const LogitRule& ref_rule, const LogitRule& cand_rule, const PairRow* values,
                       PairLeaf* out, cudaStream_t stream) {
  if (ref_rule.softcap > 0) {
    PairKernel<true><<<GridOf(shape), kThreads, 0, stream>>>(shape, ref, cand, ref_rule, cand_rule,
                                                             values, out);
  } else {
    PairKernel<false><<<GridOf(shape), kThreads, 0, stream>>>(shape, ref, cand, ref_rule, cand_rule,
                                                              values, out);
  }
  return cudaGetLastError();
}

cudaError_t LaunchRead(const PlaceOnDevice* places, int count, double softcap, double* out,
                       cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  constexpr int kBlock = 128;
  ReadKernel<<<static_cast<unsigned>((count + kBlock - 1) / kBlock), kBlock, 0, stream>>>(
      places, count, softcap, out);
  return cudaGetLastError();
}

bool KernelsRunHere() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, SideKernel<false>) == cudaSuccess;
}

}  // namespace assay::cuda
