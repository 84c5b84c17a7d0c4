// How a vocabulary is cut: fixed leaves that depend on the number of columns alone, and ranks that
// own ranges of them.

#ifndef ASSAY_WORKER_REPLAY_LEAVES_H_
#define ASSAY_WORKER_REPLAY_LEAVES_H_

#include <cstdint>
#include <vector>

namespace assay {

// Eight leaves for every 4,096 * 8 columns begun (a multiple of eight, so 1, 2, 4 and 8 ranks own
// equally many), or one per column when there are fewer than eight columns. Leaf l is [columns * l
// / count, columns * (l + 1) / count), so sizes differ by at most one and no leaf has more than
// 4,096 columns.
inline constexpr uint64_t kLeafColumnsMax = 4096;
inline constexpr uint64_t kLeafGroup = 8;

struct Leaf {
  uint64_t begin = 0;  // columns
  uint64_t end = 0;
  uint64_t columns() const { return end - begin; }
};

std::vector<Leaf> CutLeaves(uint64_t columns);
// Each chunk of that many columns (the last may be shorter) cut so by itself.
std::vector<Leaf> CutLeavesInChunks(uint64_t columns, uint64_t chunk);

// Leaves [first, last) of rank `rank` of `size`; may be empty when there are fewer leaves than
// ranks.
struct LeafRange {
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t count() const { return last - first; }
};

LeafRange LeavesOfRank(uint64_t leaves, int rank, int size);

}  // namespace assay

#endif  // ASSAY_WORKER_REPLAY_LEAVES_H_
