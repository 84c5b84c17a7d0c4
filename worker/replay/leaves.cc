#include "worker/replay/leaves.h"

#include <algorithm>

namespace assay {
namespace {

// floor(total * part / parts) without overflow.
uint64_t Share(uint64_t total, uint64_t part, uint64_t parts) {
  return total / parts * part + total % parts * part / parts;
}

}  // namespace

std::vector<Leaf> CutLeaves(uint64_t columns) {
  uint64_t count = columns;
  if (columns >= kLeafGroup) {
    const uint64_t group = kLeafGroup * kLeafColumnsMax;
    count = kLeafGroup * (columns / group + (columns % group != 0 ? 1 : 0));
  }
  std::vector<Leaf> out(count);
  for (uint64_t l = 0; l < count; ++l) {
    out[l] = {Share(columns, l, count), Share(columns, l + 1, count)};
  }
  return out;
}

std::vector<Leaf> CutLeavesInChunks(uint64_t columns, uint64_t chunk) {
  std::vector<Leaf> out;
  for (uint64_t begin = 0; begin < columns; begin += chunk) {
    for (const Leaf& leaf : CutLeaves(std::min(chunk, columns - begin))) {
      out.push_back({begin + leaf.begin, begin + leaf.end});
    }
  }
  return out;
}

LeafRange LeavesOfRank(uint64_t leaves, int rank, int size) {
  const uint64_t r = static_cast<uint64_t>(rank), n = static_cast<uint64_t>(size);
  return {Share(leaves, r, n), Share(leaves, r + 1, n)};
}

}  // namespace assay
