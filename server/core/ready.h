// READY units in the order in which they are given out, kept so that a worker finds its next one
// without a look at those that it may not take.

#ifndef ASSAY_SERVER_CORE_READY_H_
#define ASSAY_SERVER_CORE_READY_H_

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace assay {

// Units of one class may be taken by the same workers, but for the model.
struct ReadyClass {
  enum class Work { kPrepare, kCapture, kReplay } work = Work::kPrepare;
  std::string identity;     // kernels that a worker must have; "" = any
  std::string backend;      // of a replay, as its run asks for it; "" = any
  bool particular = false;  // some workers are preferred: a repeat, or one that failed somewhere
  // Of units that check others: the workers that must not do them, joined; such units come first.
  std::string not_by;
  auto operator<=>(const ReadyClass&) const = default;
};

// Units of one class and model.
struct ReadyQueue {
  std::set<uint64_t> units;
  // While no worker may take them: since when (monotonic ms), for units up to which id. Oldest
  // first.
  std::deque<std::pair<int64_t, uint64_t>> stuck;
};

struct ReadyQueues {
  std::map<std::string, ReadyQueue> by_model;          // none of them empty
  std::set<std::pair<uint64_t, std::string>> by_head;  // (first unit, model)
};

class ReadyIndex {
 public:
  // Puts the unit where it belongs, wherever it was before.
  void Insert(uint64_t unit, const ReadyClass& to, const std::string& model);
  void Erase(uint64_t unit);
  // Ordered by work, then identity.
  std::map<ReadyClass, ReadyQueues>& classes() { return classes_; }
  const std::map<ReadyClass, ReadyQueues>& classes() const { return classes_; }

 private:
  std::map<ReadyClass, ReadyQueues> classes_;
  std::map<uint64_t, std::pair<ReadyClass, std::string>> place_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_CORE_READY_H_
