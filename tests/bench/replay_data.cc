#include "tests/bench/replay_data.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "storage/base/bf16.h"
#include "tests/bench/bench_util.h"

namespace assay::bench {

void Fill(std::span<uint16_t> out, uint64_t seed, float scale) {
  for (uint16_t& v : out) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v = FloatToBf16((static_cast<float>(seed >> 40) * 0x1p-24f - 0.5f) * scale);
  }
}

SharedMemory::SharedMemory(uint64_t bytes) : bytes_(bytes) {
  descriptor_ = memfd_create("assay_bench", 0);
  Map();
}

SharedMemory::SharedMemory(const std::string& path, uint64_t bytes) : bytes_(bytes) {
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  Map();
}

void SharedMemory::Map() {
  if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(bytes_)) != 0) {
    Die("no shared memory of " + std::to_string(bytes_) + " bytes");
  }
  data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (data_ == MAP_FAILED) Die("cannot map " + std::to_string(bytes_) + " bytes");
}

SharedMemory::~SharedMemory() {
  munmap(data_, bytes_);
  close(descriptor_);
}

void SharedMemory::Forget() { madvise(data_, bytes_, MADV_DONTNEED); }

Data::Data(const Shape& s) : shape(s), head(s.vocab * s.hidden * 2) {
  const uint64_t count = s.rows * s.hidden;
  // A logit's standard deviation is scale * sqrt(hidden) / 12 for rows in +-1/2: three units.
  Fill(head.values(), 1, 36.0f / std::sqrt(static_cast<float>(s.hidden)));
  for (int k = 0; k <= s.candidates; ++k) {
    rows.push_back(std::make_unique<SharedMemory>(count * 2));
    const std::span<uint16_t> values = rows.back()->values();
    Fill(values, 2 + k, k == 0 ? 1.0f : 0.1f);
    for (size_t i = 0; k > 0 && i < count; ++i) {
      values[i] = FloatToBf16(Bf16ToFloat(values[i]) + Bf16ToFloat(rows[0]->values()[i]));
    }
  }
  plan.row_tile = s.row_tile;
  plan.heads.push_back({});
  plan.heads[0].id = "h";
  plan.heads[0].bytes = head.bytes();
  plan.heads[0].vocab = s.vocab;
  plan.heads[0].hidden = s.hidden;
  plan.heads[0].cache_key = "bench";
  plan.contexts.resize(s.contexts);
  for (size_t c = 0; c < s.contexts; ++c) {
    plan.contexts[c].index = static_cast<int64_t>(c);
    plan.contexts[c].observed.assign(s.rows, 3);
  }
  for (size_t o = 0; o < rows.size(); ++o) {
    const RowBlock block{rows[o]->bytes(), RowType::kBf16, s.rows, s.hidden, nullptr};
    std::string id("o");
    id.append(std::to_string(o));
    plan.operands.push_back(
        {id, OperandKind::kHidden, [block](size_t) -> absl::StatusOr<RowBlock> { return block; }});
    if (o > 0) plan.comparisons.push_back({id, {"o0", "h"}, {id, "h"}});
  }
}

}  // namespace assay::bench
