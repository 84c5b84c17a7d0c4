#include <utility>

#include "storage/base/digest.h"
#include "storage/base/json.h"
#include "tests/sim/actors.h"

namespace assay::sim {
namespace {

constexpr int64_t kPollMs = 2'500, kWorkMs = 3'000, kSlowWorkMs = 60'000;

std::string FileDigest(const UnitRow& unit, int64_t index, const std::string& kernels) {
  return Sha256Hex(unit.model + "/" + std::to_string(index) + "/" + kernels);
}

Json CaptureResult(const UnitRow& unit, const std::string& identity_json) {
  Json json = Json::object();
  json["files"] = Json::array();
  for (const int64_t index : unit.contexts) {
    json["files"].push_back({{"index", index},
                             {"sha256", FileDigest(unit, index, identity_json)},
                             {"bytes", 64},
                             {"rows", kContextLength - 1},
                             {"width", 4}});
  }
  json["identity"] = ParseJson(identity_json, "identity").value_or(Json::object());
  return json;
}

Json PrepareResult(const UnitRow& unit) {
  Json json = Json::object();
  json["facts"] = {{"vocab", 10}};
  json["head"] = {{"sha256", Sha256Hex("headfile" + unit.model)},
                  {"bytes", 100},
                  {"content_sha256", Sha256Hex("head" + unit.model)},
                  {"tensor", "lm_head.weight"},
                  {"vocab", 10},
                  {"hidden", 4}};
  return json;
}

Json ReplayResult(const UnitRow& unit, const std::string& operands) {
  std::string content = operands;
  for (const int64_t index : unit.contexts) content += "/" + std::to_string(index);
  return {{"sha256", Sha256Hex("positions" + content)}, {"bytes", 10}, {"backend", "cpu-bf16"}};
}

// What a replay reads: identical work gives identical bytes, whatever run it is for.
std::string OperandsOf(const RunRow& run) {
  std::string text = run.reference.capture;
  for (const CandidateRow& c : run.candidates) {
    if (c.state == CandidateState::kWaiting) text += "/" + c.source.capture;
  }
  return text;
}

}  // namespace

Worker::Worker(World* world, Coordinator* coordinator, std::string id, std::string kernels)
    : world_(world),
      coordinator_(coordinator),
      id_(std::move(id)),
      kernels_(R"({"kernels":")" + kernels + R"("})") {
  Reincarnate();
}

void Worker::Begin() {
  world_->After(world_->random.Between(0, kPollMs), [this] { Poll(); });
}

void Worker::Reincarnate() {
  incarnation_ = Sha256Hex(id_ + std::to_string(++births_)).substr(0, 32);
  held_.clear();
  if (!habits_.late) old_.clear();  // results that a proxy, say, still has under way
}

void Worker::Poll() {
  Random& random = world_->random;
  if (habits_.dies && random.OneIn(40)) {
    world_->Trace([&] { return id_ + ": dies and starts anew"; });
    Reincarnate();
  }
  Synchronize sync;
  sync.worker = id_;
  sync.incarnation = incarnation_;
  sync.replay_identity = sync.capture_identity = kernels_;
  sync.free_slots = held_.size() < 2 ? random.Between(0, 2) : 0;
  for (auto& [lease, held] : held_) {
    if (!held.done) {
      sync.leases.push_back({lease, 0, 1});
      continue;
    }
    if (habits_.late && random.OneIn(6)) continue;  // keeps it to itself for now
    sync.results.push_back(held.result);
    if (habits_.repeats && random.OneIn(3)) old_.push_back(held.result);
  }
  if (!old_.empty() && (habits_.late || habits_.repeats) && random.OneIn(3)) {
    sync.results.push_back(old_.back());
    if (!random.OneIn(3)) old_.pop_back();
  }
  world_->Trace([&] {
    std::string text = id_ + " -> synchronize, slots " + std::to_string(sync.free_slots);
    for (const LeaseProgress& l : sync.leases) text += ", holds " + l.lease;
    for (const LeaseResult& r : sync.results)
      text += ", result " + r.lease + (r.error.empty() ? "" : " " + r.error.reason);
    return text;
  });
  world_->Send(id_, [this, sync, incarnation = incarnation_] {
    coordinator_->Deliver({"worker:" + id_, sync},
                          [this, incarnation](const Outcome& outcome, const State& s) {
                            const auto* answer = std::get_if<SyncAnswer>(&outcome.answer);
                            if (!outcome.status.ok() || answer == nullptr) return;
                            std::vector<Held> started;
                            for (const Grant& grant : answer->start) {
                              Held held;
                              held.unit = s.units.at(grant.unit);
                              if (!held.unit.capture.empty())
                                held.identity_json = s.captures.at(held.unit.capture).identity_json;
                              if (!held.unit.run.empty())
                                held.operands = OperandsOf(s.runs.at(held.unit.run));
                              started.push_back(std::move(held));
                            }
                            world_->Send(id_, [this, incarnation, answer = *answer, started] {
                              OnAnswer(incarnation, answer, started);
                            });
                          });
  });
  world_->After(random.Between(50, kPollMs), [this] { Poll(); });
}

void Worker::OnAnswer(const std::string& incarnation, const SyncAnswer& answer,
                      const std::vector<Held>& started) {
  if (incarnation != incarnation_) return;
  for (const Ack& ack : answer.acks) held_.erase(ack.lease);
  for (const std::string& lease : answer.cancel) {
    const auto it = held_.find(lease);
    if (it == held_.end()) continue;
    if (habits_.late && it->second.done) old_.push_back(it->second.result);
    held_.erase(it);
  }
  for (size_t i = 0; i < answer.start.size(); ++i) {
    const std::string& lease = answer.start[i].lease;
    if (!held_.emplace(lease, started[i]).second) continue;
    const bool slow = habits_.late && world_->random.OneIn(12);
    world_->After(world_->random.Between(1, slow ? kSlowWorkMs : kWorkMs),
                  [this, incarnation, lease] { Finish(incarnation, lease); });
  }
}

void Worker::Finish(const std::string& incarnation, const std::string& lease) {
  const auto it = held_.find(lease);
  if (incarnation != incarnation_ || it == held_.end()) return;
  it->second.result = Compute(lease, it->second);
  it->second.done = true;
  if (habits_.late && world_->random.OneIn(4)) old_.push_back(it->second.result);
}

LeaseResult Worker::Compute(const std::string& lease, const Held& held) {
  LeaseResult result;
  result.lease = lease;
  if (habits_.fails && world_->random.OneIn(60)) {
    result.error = {"INVALID_ARGUMENT", "RANK_DIED", "a rank died"};
    result.retryable = true;
    return result;
  }
  Json json;
  switch (held.unit.kind) {
    case UnitKind::kPrepare:
      json = PrepareResult(held.unit);
      break;
    case UnitKind::kCapture:
    case UnitKind::kRepeat:
      json = CaptureResult(held.unit, held.identity_json);
      break;
    case UnitKind::kReplay:
    case UnitKind::kNoise:
      json = ReplayResult(held.unit, held.operands);
      break;
  }
  if (habits_.lies && world_->random.OneIn(10) && held.unit.kind != UnitKind::kPrepare) {
    ++lies_;
    Json& target = json.contains("files") ? json["files"][0] : json;
    target["sha256"] = Sha256Hex("lie " + std::to_string(lies_) + id_);
    world_->Trace([&] { return id_ + ": will lie about " + lease; });
  }
  result.result_json = json.dump();
  return result;
}

}  // namespace assay::sim
