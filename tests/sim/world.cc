#include "tests/sim/world.h"

#include <cstdio>
#include <utility>

namespace assay::sim {
namespace {

constexpr size_t kLinesMax = 400;
constexpr int64_t kUsualDelayMs = 20, kLongDelayMs = 60'000;

}  // namespace

void World::After(int64_t after_ms, std::function<void()> what) {
  events_.push({now_ms_ + after_ms, order_++, std::move(what)});
}

void World::Send(const std::string& peer, const std::function<void()>& arrive) {
  const auto cut = cut_until_.find(peer);
  if ((cut != cut_until_.end() && now_ms_ < cut->second) || (network.drop && random.OneIn(20))) {
    ++dropped;
    Trace([&] { return "network: a message of " + peer + " is lost"; });
    return;
  }
  const int copies = network.repeat && random.OneIn(20) ? 2 : 1;
  repeated += copies == 2;
  for (int i = 0; i < copies; ++i) {
    const bool late = network.delay && random.OneIn(30);
    After(random.Between(0, late ? kLongDelayMs : kUsualDelayMs), arrive);
  }
}

bool World::Step() {
  if (events_.empty()) return false;
  // The queue gives only const access to its top; the event is removed right after.
  std::function<void()> what = std::move(const_cast<Event&>(events_.top()).what);
  now_ms_ = events_.top().at;
  events_.pop();
  what();
  return true;
}

void World::AddLine(const std::string& text) {
  char time[32];
  std::snprintf(time, sizeof(time), "%10.3f s  ", static_cast<double>(now_ms_) / 1000);
  lines_.push_back(time + text);
  if (lines_.size() > kLinesMax) lines_.pop_front();
}

}  // namespace assay::sim
