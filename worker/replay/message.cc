#include "worker/replay/message.h"

#include <cstring>
#include <type_traits>

#include "worker/replay/agree.h"

namespace assay {
namespace {

// A visitor sees each array of a message with the number of its items; per_leaf: the item has an
// element for every leaf.
template <typename Visitor>
void VisitArrays(const Job& job, const MessageRows& rows, TileMessage* message, Visitor&& visit) {
  const uint64_t comparisons = job.comparisons.size();
  visit(&message->first.sides, job.sources.size() * rows.first, true);
  visit(&message->first.thresholds, comparisons * rows.first, false);
  visit(&message->second.pairs, comparisons * rows.second, true);
  if (job.plan->vocab_chunk) visit(&message->second.torch, comparisons * rows.second, true);
}

// Every message begins with its sender's state and whether it has a second part, in a field that
// keeps arrays aligned.
constexpr uint64_t kStateBytes = 8;

bool HasSecond(const Job& job, const MessageRows& rows, const TileMessage& message) {
  return message.second.pairs.size() == job.comparisons.size() * rows.second * job.own.count();
}

uint64_t BytesOf(const Job& job, const MessageRows& rows, const LeafRange& range) {
  uint64_t bytes = kStateBytes;
  TileMessage none;
  VisitArrays(job, rows, &none, [&](auto* values, uint64_t items, bool per_leaf) {
    bytes += items * (per_leaf ? range.count() : 1) * sizeof((*values)[0]);
  });
  return bytes;
}

std::vector<uint8_t> Write(const Job& job, const MessageRows& rows, uint8_t state,
                           TileMessage* message) {
  std::vector<uint8_t> out(BytesOf(job, rows, job.own));
  out[0] = state;
  out[1] = HasSecond(job, rows, *message) ? 1 : 0;
  uint8_t* to = out.data() + kStateBytes;
  VisitArrays(job, rows, message, [&](auto* values, uint64_t items, bool per_leaf) {
    using T = std::decay_t<decltype((*values)[0])>;
    static_assert(std::is_trivially_copyable_v<T>);
    const uint64_t count = items * (per_leaf ? job.own.count() : 1);
    if (values->size() == count && count > 0) std::memcpy(to, values->data(), count * sizeof(T));
    to += count * sizeof(T);
  });
  return out;
}

// Adds the message of one rank to that of all.
void Read(const Job& job, const MessageRows& rows, size_t rank, const uint8_t* from,
          TileMessage* all) {
  from += kStateBytes;
  const LeafRange& range = job.ranges[rank];
  VisitArrays(job, rows, all, [&](auto* values, uint64_t items, bool per_leaf) {
    using T = std::decay_t<decltype((*values)[0])>;
    const uint64_t width = per_leaf ? job.leaves.size() : 1;
    values->resize(items * (per_leaf ? width : job.ranges.size()));
    for (uint64_t item = 0; item < items; ++item) {
      const uint64_t at = per_leaf ? item * width + range.first : rank * items + item;
      const uint64_t count = per_leaf ? range.count() : 1;
      if (count > 0) std::memcpy(values->data() + at, from, count * sizeof(T));
      from += count * sizeof(T);
    }
  });
}

}  // namespace

absl::Status ExchangeMessages(const Job& job, const MessageRows& rows, const absl::Status& status,
                              Collective& collective, TileMessage* message, bool* complete) {
  *complete = HasSecond(job, rows, *message);
  if (job.ranges.size() == 1) return status;
  std::vector<uint64_t> counts;
  uint64_t total = 0;
  for (const LeafRange& range : job.ranges) {
    counts.push_back(BytesOf(job, rows, range));
    total += counts.back();
  }
  const std::vector<uint8_t> own = Write(job, rows, StateOf(status), message);
  std::vector<uint8_t> arrived(total);
  if (const absl::Status gathered = collective.AllGatherV(own, counts, arrived); !gathered.ok()) {
    *complete = false;
    return status.ok() ? gathered : status;
  }
  std::vector<uint8_t> states;
  *complete = true;
  TileMessage all;
  const uint8_t* from = arrived.data();
  for (size_t r = 0; r < counts.size(); from += counts[r++]) {
    states.push_back(from[0]);
    *complete = *complete && from[1] == 1;
    Read(job, rows, r, from, &all);
  }
  *message = std::move(all);
  return AgreedStatus(status, states);
}

}  // namespace assay
