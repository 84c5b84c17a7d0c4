#include "worker/capture/exchange.h"

#include <algorithm>
#include <numeric>

#include "storage/base/macros.h"
#include "worker/capture/kernels.h"

namespace assay::capture {
namespace {

template <typename T>
std::span<const uint8_t> Bytes(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}
template <typename T>
std::span<uint8_t> MutableBytes(std::span<T> values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size_bytes()};
}

template <typename T>
absl::Status GatherRows(Collective& collective, int64_t rows, int64_t width,
                        std::span<const T> own_rows, std::span<T> all) {
  const int size = collective.size();
  if (size == 1) {
    std::copy(own_rows.begin(), own_rows.end(), all.begin());
    return absl::OkStatus();
  }
  std::vector<uint64_t> counts;
  for (int r = 0; r < size; ++r) {
    counts.push_back(uint64_t(PartOf(rows, size, r).size()) * uint64_t(width) * sizeof(T));
  }
  return collective.AllGatherV(Bytes(own_rows), counts, MutableBytes(all));
}

}  // namespace

TokenExchange::TokenExchange(Collective& collective, int64_t rows, int64_t width)
    : collective_(collective), rows_(rows), width_(width) {}

absl::Status TokenExchange::Gather(std::span<const float> own_rows, std::span<float> all) {
  return GatherRows(collective_, rows_, width_, own_rows, all);
}

absl::Status TokenExchange::Gather(std::span<const uint16_t> own_rows, std::span<uint16_t> all) {
  return GatherRows(collective_, rows_, width_, own_rows, all);
}

absl::Status TokenExchange::SumPieces(const float* partial, std::span<const int64_t> counts,
                                      const float* bias, std::span<float> out) {
  const int size = collective_.size();
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const int64_t own_rows = own().size();
  if (size == 1) {
    capture::SumPieces(partial, total, own_rows, width_, bias, out.data());
    return absl::OkStatus();
  }
  const int64_t own_pieces = counts[collective_.rank()];
  send_.resize(size_t(own_pieces * rows_ * width_));
  receive_.resize(size_t(total * own_rows * width_));
  std::vector<uint64_t> send_bytes, receive_bytes;
  float* next = send_.data();
  for (int r = 0; r < size; ++r) {
    const Range slice = PartOf(rows_, size, r);
    for (int64_t piece = 0; piece < own_pieces; ++piece) {
      const float* from = partial + (piece * rows_ + slice.begin) * width_;
      next = std::copy(from, from + slice.size() * width_, next);
    }
    send_bytes.push_back(uint64_t(own_pieces * slice.size() * width_) * sizeof(float));
    receive_bytes.push_back(uint64_t(counts[r] * own_rows * width_) * sizeof(float));
  }
  ASSAY_RETURN_IF_ERROR(collective_.AllToAllV(Bytes(std::span<const float>(send_)), send_bytes,
                                              MutableBytes(std::span<float>(receive_)),
                                              receive_bytes));
  capture::SumPieces(receive_.data(), total, own_rows, width_, bias, out.data());
  return absl::OkStatus();
}

}  // namespace assay::capture
