#include "server/core/ready.h"

namespace assay {

void ReadyIndex::Insert(uint64_t unit, const ReadyClass& to, const std::string& model) {
  const auto place = place_.find(unit);
  if (place != place_.end()) {
    if (place->second.first == to && place->second.second == model) return;
    Erase(unit);
  }
  ReadyQueues& queues = classes_[to];
  ReadyQueue& queue = queues.by_model[model];
  if (!queue.units.empty() && unit < *queue.units.begin())
    queues.by_head.erase({*queue.units.begin(), model});
  queue.units.insert(unit);
  if (*queue.units.begin() == unit) queues.by_head.insert({unit, model});
  place_.emplace(unit, std::pair(to, model));
}

void ReadyIndex::Erase(uint64_t unit) {
  const auto place = place_.find(unit);
  if (place == place_.end()) return;
  const auto found = classes_.find(place->second.first);
  const std::string model = place->second.second;
  place_.erase(place);
  ReadyQueues& queues = found->second;
  const auto queue = queues.by_model.find(model);
  const bool first = *queue->second.units.begin() == unit;
  queue->second.units.erase(unit);
  if (first) queues.by_head.erase({unit, model});
  if (queue->second.units.empty()) {
    queues.by_model.erase(queue);
  } else if (first) {
    queues.by_head.insert({*queue->second.units.begin(), model});
  }
  if (queues.by_model.empty()) classes_.erase(found);
}

}  // namespace assay
