// Made-up heads and hidden rows for the replay benches: logits of a few units' spread and
// candidates close to the reference (about 0.05 nats), as real ones are.

#ifndef ASSAY_TESTS_BENCH_REPLAY_DATA_H_
#define ASSAY_TESTS_BENCH_REPLAY_DATA_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/replay/replay.h"

namespace assay::bench {

struct Shape {
  uint64_t vocab = 0, hidden = 0;
  uint64_t rows = 0;  // of each context
  uint64_t contexts = 1;
  int candidates = 1;
  uint64_t row_tile = ReplayPlan().row_tile;  // the product's own choice
};

// bf16 values, uniform in +-scale/2, the same everywhere.
void Fill(std::span<uint16_t> out, uint64_t seed, float scale);

// Memory that another process can map by its descriptor: a peer gets the same bytes.
class SharedMemory {
 public:
  explicit SharedMemory(uint64_t bytes);                  // an anonymous file
  SharedMemory(const std::string& path, uint64_t bytes);  // a file, made anew
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int descriptor() const { return descriptor_; }
  std::span<uint16_t> values() { return {static_cast<uint16_t*>(data_), bytes_ / 2}; }
  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(data_), bytes_}; }
  void Forget();  // takes the pages out of this process's memory; they come back when read

 private:
  void Map();

  int descriptor_ = -1;
  uint64_t bytes_ = 0;
  void* data_ = nullptr;
};

// A plan and all that its spans point into. Contexts share one block of rows per operand.
struct Data {
  explicit Data(const Shape& shape);

  Shape shape;
  SharedMemory head;
  std::vector<std::unique_ptr<SharedMemory>> rows;  // reference, then candidates
  ReplayPlan plan;
};

}  // namespace assay::bench

#endif  // ASSAY_TESTS_BENCH_REPLAY_DATA_H_
