#include "worker/rank/rank_service.h"

#include <unistd.h>

#include <exception>
#include <memory>
#include <utility>

#include "storage/base/build_info.h"
#include "storage/base/files.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/collective/collective.h"
#include "worker/rank/capture_plugin.h"
#include "worker/rank/unit.h"
#include "worker/replay/cuda/own_device.h"
#include "worker/replay/replay.h"

namespace assay {
namespace {

constexpr int kExitStartFailed = 3;

// What a rank holds between units.
struct Rank {
  RankInit init;
  std::unique_ptr<Collective> collective;
  std::unique_ptr<ReplayEngine> replay;
  std::unique_ptr<CapturePlugin> capture;
  std::string capture_missing;
  Json identity;
};

Json ReplayIdentityJson(const ReplayIdentity& identity) {
  Json out = {{"backend", identity.backend},
              {"onednn_version", identity.onednn_version},
              {"onednn_isa", identity.onednn_isa},
              {"kernels", identity.kernels},
              {"self_test_sha256_bf16", identity.self_test_sha256_bf16},
              {"self_test_sha256_f32", identity.self_test_sha256_f32}};
  if (!identity.cuda.empty()) {
    out["cuda"] = identity.cuda;
    out["self_test_sha256_cuda"] = identity.self_test_sha256_cuda;
  }
  return out;
}

absl::StatusOr<Rank> StartRank(RankInit init) {
  Rank rank;
  rank.init = std::move(init);
  // The replay engine first: it pins the instruction set of oneDNN for the whole process.
  SetOwnRank(rank.init.rank);
  ASSAY_ASSIGN_OR_RETURN(rank.replay, ReplayEngine::Create(rank.init.threads));
  rank.identity["replay"] = ReplayIdentityJson(rank.replay->identity());
  rank.identity["capture"] = nullptr;
  if (rank.init.capture_library.empty()) {
    rank.capture_missing = "this group was started for replays only";
  } else {
    absl::StatusOr<std::unique_ptr<CapturePlugin>> plugin =
        CapturePlugin::Open(rank.init.capture_library);
    if (plugin.ok()) {
      rank.capture = std::move(*plugin);
      rank.identity["capture"] = rank.capture->engine().Identity();
    } else if (ReasonOf(plugin.status()) == "CAPTURE_ENGINE_MISSING") {
      rank.capture_missing = MessageOf(plugin.status());
    } else {
      return plugin.status();
    }
  }
  CollectiveOptions options;
  options.rank = rank.init.rank;
  options.size = rank.init.size;
  options.rendezvous = rank.init.rendezvous;
  options.timeout_ms = rank.init.collective_timeout_ms;
  options.backend = rank.init.backend;
  ASSAY_ASSIGN_OR_RETURN(rank.collective, CreateCollective(options));
  return rank;
}

absl::StatusOr<UnitOutput> RunUnit(Rank& rank, RankChannel& channel, const RankRun& run) {
  ASSAY_ASSIGN_OR_RETURN(const Json unit, ReadJsonFile(run.unit, kUnitBytesMax));
  bool in_the_middle = false;
  UnitContext context;
  context.collective = rank.collective.get();
  context.replay = rank.replay.get();
  context.capture = rank.capture ? &rank.capture->engine() : nullptr;
  context.capture_missing = rank.capture_missing;
  context.threads = rank.init.threads;
  context.out_dir = run.out_dir;
  context.progress = [&](uint64_t done, uint64_t total) {
    channel.Send(RankProgress{run.id, done, total}, run.id);
    if (done > 0 && !in_the_middle) {
      in_the_middle = true;
      AssayKillPoint("rank:unit-middle");
    }
    return !channel.Cancelled(run.id);
  };
  return ExecuteUnit(unit, context);
}

RankEvent Answer(Rank& rank, RankChannel& channel, const RankRun& run) {
  absl::StatusOr<UnitOutput> output = UnitOutput();
  try {
    output = RunUnit(rank, channel, run);
  } catch (const std::exception& error) {
    output = InternalError("UNIT_FAILED", std::string("unexpected exception: ") + error.what());
  }
  if (!output.ok()) return RankFailed{run.id, output.status()};
  return RankDone{run.id, std::move(output->result), output->multiply_adds, output->weight_bytes};
}

}  // namespace

int ServeRank(RankChannel& channel) {
  channel.Send(RankHello{BuildId(), getpid()});
  channel.Start();
  RankCommand command = channel.Next();
  if (std::holds_alternative<RankShutdown>(command)) return 0;
  const auto fail = [&](const absl::Status& status) {
    channel.Send(RankFailed{0, status});
    return kExitStartFailed;
  };
  if (!std::holds_alternative<RankInit>(command)) {
    return fail(InvalidError("PROTOCOL_INVALID", "rank protocol: the first command must be init"));
  }
  absl::StatusOr<Rank> rank = Rank();
  try {
    rank = StartRank(std::move(std::get<RankInit>(command)));
  } catch (const std::exception& error) {
    rank = InternalError("RANK_START_FAILED", std::string("unexpected exception: ") + error.what());
  }
  if (!rank.ok()) return fail(rank.status());
  channel.Send(RankReady{rank->identity});
  while (true) {
    command = channel.Next();
    if (std::holds_alternative<RankShutdown>(command)) return 0;
    if (const auto* run = std::get_if<RankRun>(&command)) {
      channel.Send(Answer(*rank, channel, *run), run->id);
    } else {
      return fail(InvalidError("PROTOCOL_INVALID", "rank protocol: init came twice"));
    }
  }
}

}  // namespace assay
