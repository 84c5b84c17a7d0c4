// Virtual time, a network that loses, delays, repeats and reorders, and a trace of what happened.

#ifndef ASSAY_TESTS_SIM_WORLD_H_
#define ASSAY_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "server/core/state.h"
#include "tests/sim/disk.h"
#include "tests/sim/oracle.h"
#include "tests/sim/random.h"

namespace assay::sim {

struct NetworkFaults {
  bool drop = false, delay = false, repeat = false;
};

class World {
 public:
  World(uint64_t seed, bool trace) : random(seed), disk(&random), trace_on_(trace) {}

  int64_t now_ms() const { return now_ms_; }
  // As a process sees it: the wall clock is stepped now and then, the other one is not.
  Now now() const { return {1'700'000'000'000 + now_ms_ + wall_skew_ms, now_ms_}; }

  // Runs `what` `after_ms` from now. Events of one moment come in the order they were asked for.
  void After(int64_t after_ms, std::function<void()> what);
  // Sends a message between `peer` and the coordinator: `arrive` runs never, once or twice, later.
  void Send(const std::string& peer, const std::function<void()>& arrive);
  void Partition(const std::string& peer, int64_t for_ms) { cut_until_[peer] = now_ms_ + for_ms; }
  void HealAll() { cut_until_.clear(); }

  // One event; false when there is none. A step of the simulation.
  bool Step();

  // Keeps a line for the trace; the text is made only when somebody will read it.
  template <class F>
  void Trace(F text) {
    if (trace_on_) AddLine(text());
  }
  const std::deque<std::string>& lines() const { return lines_; }

  Random random;
  Disk disk;
  Oracle oracle;
  NetworkFaults network;
  int64_t wall_skew_ms = 0;
  uint64_t dropped = 0, repeated = 0;  // messages

 private:
  struct Event {
    int64_t at = 0;
    uint64_t order = 0;
    std::function<void()> what;
    bool operator<(const Event& o) const { return std::pair(o.at, o.order) < std::pair(at, order); }
  };
  void AddLine(const std::string& text);

  std::priority_queue<Event> events_;
  uint64_t order_ = 0;
  int64_t now_ms_ = 0;
  std::map<std::string, int64_t> cut_until_;
  bool trace_on_;
  std::deque<std::string> lines_;
};

}  // namespace assay::sim

#endif  // ASSAY_TESTS_SIM_WORLD_H_
