#include "tests/sim/coordinator.h"

#include <algorithm>
#include <utility>

#include "server/engine/batch.h"
#include "server/engine/seal_command.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "tests/sim/report.h"

namespace assay::sim {
namespace {

constexpr int64_t kTickMs = 500, kBatchDelayMs = 2, kSealMs = 300, kRestartMs = 2'000;
constexpr size_t kBatchMax = 6;
constexpr const char* kOrigin = "assay/sim";

CoreOptions Options() {
  CoreOptions options;
  options.lease_ms = 20'000;
  options.model_wait_ms = 30'000;
  options.worker_wait_ms = 120'000;
  options.disk_wait_ms = 120'000;
  options.unit_contexts = 2;
  return options;
}

absl::StatusOr<std::unique_ptr<Catalogue>> OpenCatalogue(Disk* disk,
                                                         std::unique_ptr<LogStore> store) {
  ASSAY_ASSIGN_OR_RETURN(auto anchor, Anchor::Over(NewSimAnchor(disk), kAnchorFile));
  return Catalogue::Open(std::move(store), std::move(anchor), "store");
}

}  // namespace

Coordinator::Coordinator(World* world)
    : world_(world), recheck_per_mille_(world->random.OneIn(2) ? 400 : 0) {
  std::array<uint8_t, 32> seed{};
  seed.fill(9);
  auto signer = Signer::FromSeed(seed);
  if (signer.ok()) signer_ = *std::move(signer);
}

void Coordinator::Crash(const std::string& why) {
  world_->Trace([&] { return "coordinator: ends, " + why; });
  ++life_;
  catalogue_.reset();
  inbox_.clear();
  to_seal_.clear();
  busy_ = sealing_ = false;
  world_->disk.Crash();
  world_->After(world_->random.Between(0, kRestartMs), [this] { Boot(); });
}

void Coordinator::Boot() {
  if (up()) return;
  ++lives_;
  auto store = std::make_unique<LogStore>(&world_->disk);
  const LogStore& rows = *store;
  auto catalogue = OpenCatalogue(&world_->disk, std::move(store));
  state_ = State();
  state_.options = Options();
  state_.options.recheck_per_mille = recheck_per_mille_;
  absl::Status status = catalogue.status();
  if (status.ok()) status = (*catalogue)->LoadAll([this](Row row) { state_.Absorb(row); });
  if (!status.ok()) {
    world_->Trace([&] { return "coordinator: refuses to start: " + MessageOf(status); });
    const std::string reason = ReasonOf(status);
    if (reason == "SIM_CRASH" || reason == "DISK_FULL") return Crash(reason);
    if (reason != "STORE_DAMAGED" || !world_->disk.damaged())
      return world_->oracle.Fail("a sound store was refused: " + MessageOf(status));
    ++refused_damage_;
    world_->disk.Restore();
    return world_->After(kRestartMs, [this] { Boot(); });
  }
  catalogue_ = *std::move(catalogue);
  world_->oracle.OnOpened(rows, state_.meta.epoch);
  world_->disk.Accept();
  world_->Trace([&] {
    return "coordinator: life " + std::to_string(lives_) + " begins with batch " +
           std::to_string(catalogue_->seq()) + ", epoch " + std::to_string(state_.meta.epoch + 1);
  });
  busy_ = false;
  inbox_.push_back({{"coordinator", Start{"simulated"}}, nullptr, nullptr});
  RunBatch();
  if (up()) TickSoon();
}

void Coordinator::Deliver(Command command, Reply reply) {
  if (!up()) return;
  if (auto* sync = std::get_if<Synchronize>(&command.body)) sync->call = ++calls_;
  inbox_.push_back({std::move(command), std::move(reply), nullptr});
  Wake();
}

void Coordinator::Look(std::function<void(const State&)> look) {
  if (!up()) return;
  inbox_.push_back({{}, nullptr, std::move(look)});
  Wake();
}

void Coordinator::Wake() {
  if (busy_ || inbox_.empty()) return;
  busy_ = true;
  const uint64_t life = life_;
  world_->After(world_->random.Between(0, kBatchDelayMs), [this, life] {
    if (life == life_) RunBatch();
  });
}

void Coordinator::RunBatch() {
  std::vector<Item> items;
  const size_t most = 1 + world_->random.Below(kBatchMax);
  while (!inbox_.empty() && items.size() < most) {
    items.push_back(std::move(inbox_.front()));
    inbox_.pop_front();
  }
  std::vector<const Command*> commands;
  for (const Item& item : items) {
    if (!item.look) commands.push_back(&item.command);
  }
  std::vector<Outcome> outcomes;
  const absl::Status status = ApplyAndCommit(
      state_, *catalogue_, commands, [this] { return world_->now(); }, &outcomes);
  if (!status.ok()) {
    world_->oracle.OnUnknown(outcomes);
    return Crash(MessageOf(status));
  }
  world_->oracle.OnAcknowledged(commands, outcomes);
  size_t at = 0;
  for (const Item& item : items) {
    if (item.look) {
      item.look(state_);
      continue;
    }
    const Outcome& outcome = outcomes[at++];
    if (item.reply) item.reply(outcome, state_);
    Perform(outcome.effects);
  }
  // The next batch waits for this one's sync.
  busy_ = true;
  const uint64_t life = life_;
  world_->After(sync_ms_, [this, life] {
    if (life != life_) return;
    busy_ = false;
    Wake();
  });
}

void Coordinator::Perform(const Effects& effects) {
  for (const std::string& run : effects.seal) {
    if (std::find(to_seal_.begin(), to_seal_.end(), run) == to_seal_.end()) to_seal_.push_back(run);
  }
  SealNext();
}

void Coordinator::SealNext() {
  if (sealing_ || to_seal_.empty()) return;
  const std::string run = to_seal_.front();
  const RunRow& row = state_.runs.at(run);
  size_t candidate = 0;
  while (candidate < row.candidates.size() &&
         row.candidates[candidate].state != CandidateState::kComputed) {
    ++candidate;
  }
  if (row.state != RunState::kSealing || candidate == row.candidates.size()) {
    to_seal_.pop_front();
    return SealNext();
  }
  sealing_ = true;
  const uint64_t life = life_;
  world_->After(world_->random.Between(1, kSealMs), [this, life, run, candidate] {
    if (life == life_) SealOne(run, candidate);
  });
}

void Coordinator::SealOne(const std::string& run, size_t candidate) {
  const RunRow& row = state_.runs.at(run);
  const uint64_t life = life_;
  const auto next = [this, life](const Outcome& outcome, const State&) {
    if (life != life_ || !sealing_) return;
    world_->Trace(
        [&] { return "sealer: " + std::string(outcome.status.ok() ? "sealed" : "refused"); });
    sealing_ = false;
    SealNext();
  };
  SealContent content;
  content.run = &row;
  content.candidate = candidate;
  const Json report = ReportOf(state_, row, candidate);
  content.report = CanonicalJson(report).value_or("");
  content.execution = R"({"seal_ms":)" + std::to_string(row.seal_ms) + "}";
  content.inputs = InputsOfReport(report).value_or(std::vector<InputDigest>());
  content.log_origin = kOrigin;
  content.previous_checkpoint = state_.meta.checkpoint;
  const auto command = MakeSealCommand(content, *signer_, *catalogue_);
  if (!command.ok()) return world_->oracle.Fail("sealing failed: " + MessageOf(command.status()));
  world_->oracle.OnSealBuilt(command->done, content.report, command->receipt);
  world_->Trace([&] {
    return "sealer: run " + run.substr(0, 6) + " " + row.candidates[candidate].label +
           " -> report " + command->done.report.id.substr(0, 8);
  });
  // A sealer that lost count asks twice: the intent must be closed by then.
  const bool twice = world_->random.OneIn(8);
  Deliver({"coordinator", command->done}, next);
  if (twice) Deliver({"coordinator", command->done}, nullptr);
}

void Coordinator::TickSoon() {
  const uint64_t life = life_;
  world_->After(kTickMs, [this, life] {
    if (life != life_) return;
    Deliver({"coordinator", Tick{world_->disk.full()}}, nullptr);
    TickSoon();
  });
}

}  // namespace assay::sim
