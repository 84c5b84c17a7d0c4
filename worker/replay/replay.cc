#include "worker/replay/replay.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/cuda/device_run.h"
#include "worker/replay/cuda/own_device.h"
#include "worker/replay/exchange.h"
#include "worker/replay/logits.h"
#include "worker/replay/passes.h"
#include "worker/replay/prepare.h"
#include "worker/replay/row_feed.h"
#include "worker/replay/startup_check.h"

namespace assay {
namespace {

constexpr int kThreadsMax = 1024;

// The device that the identity's self-test ran on, until a run of this process's rank takes it.
std::unique_ptr<ReplayDevice>& ProvenSpare() {
  static std::unique_ptr<ReplayDevice>* const spare = new std::unique_ptr<ReplayDevice>;
  return *spare;
}

// Adds the GPU where there is one; an error where it was asked for and cannot be used.
absl::Status AddDevice(ReplayIdentity* out) {
  const char* forced = std::getenv("ASSAY_REPLAY_BACKEND");
  const bool wanted = forced != nullptr && forced == ReplayBackendName(ReplayBackend::kCudaBf16);
  absl::StatusOr<ProvenDevice> proven = OpenProvenDevice(OwnRank());
  if (!proven.ok()) return wanted ? proven.status() : absl::OkStatus();
  out->cuda = proven->description;
  out->self_test_sha256_cuda = proven->digest;
  ProvenSpare() = std::move(proven->device);
  if (wanted) out->backend = forced;
  return absl::OkStatus();
}

// The identity of this process, made once.
absl::StatusOr<ReplayIdentity> MakeIdentity() {
  ASSAY_RETURN_IF_ERROR(PinOnednn());
  ReplayIdentity out;
  out.backend = std::string(
      ReplayBackendName(HasAvx512Bf16() ? ReplayBackend::kCpuBf16 : ReplayBackend::kCpuF32));
  out.onednn_version = OnednnVersion();
  out.onednn_isa = OnednnIsa();
  out.kernels = kKernelsVersion;
  if (HasAvx512Bf16()) {
    ASSAY_ASSIGN_OR_RETURN(out.self_test_sha256_bf16, RunSelfTest(ReplayBackend::kCpuBf16));
  }
  ASSAY_ASSIGN_OR_RETURN(out.self_test_sha256_f32, RunSelfTest(ReplayBackend::kCpuF32));
  ASSAY_RETURN_IF_ERROR(AddDevice(&out));
  return out;
}

const absl::StatusOr<ReplayIdentity>& ProcessIdentity() {
  static const absl::StatusOr<ReplayIdentity> identity = MakeIdentity();
  return identity;
}

// One plan on one rank.
class Replay {
 public:
  Replay(const Job& job, const Prepared& prepared, ThreadPool& pool, Tile& tile,
         Collective& collective, const ReplayProgress& progress, ReplayCounters* counters)
      : job_(job),
        plan_(*job.plan),
        prepared_(prepared),
        pool_(pool),
        collective_(collective),
        progress_(progress),
        counters_(counters),
        tile_(tile),
        feed_(job, prepared.backend) {}

  absl::StatusOr<ReplayResult> Run() {
    ReplayResult out;
    out.backend = prepared_.backend;
    out.max_hidden = prepared_.max_hidden;
    out.max_head = prepared_.max_head;
    CountWeights();
    TileExchange exchange(job_, collective_, progress_, &out);
    for (size_t c = 0; c < plan_.contexts.size(); ++c) {
      ASSAY_RETURN_IF_ERROR(RunContext(c, &exchange));
    }
    ASSAY_RETURN_IF_ERROR(exchange.Finish(absl::OkStatus()));
    return out;
  }

 private:
  // Tiles of one context in order.
  absl::Status RunContext(size_t context, TileExchange* exchange) {
    const absl::StatusOr<const OperandRows*> loaded = feed_.Next();
    const uint64_t rows = plan_.contexts[context].observed.size();
    const uint64_t step = plan_.row_tile == 0 ? rows : std::min(plan_.row_tile, rows);
    for (uint64_t first = 0; first < rows; first += step) {
      tile_.Reset(job_, context, first, std::min(step, rows - first));
      absl::Status status = loaded.status();
      FirstPart found;
      if (status.ok() && !exchange->stopping()) status = FirstPass(**loaded, &found);
      ASSAY_ASSIGN_OR_RETURN(const std::vector<PairRow> pair_rows,
                             exchange->Meet(tile_, status, std::move(found)));
      exchange->Keep(SecondPass(tile_, exchange->sides(), pair_rows, pool_));
    }
    return absl::OkStatus();
  }

  absl::Status FirstPass(const OperandRows& rows, FirstPart* out) {
    ASSAY_RETURN_IF_ERROR(FillTile(rows, prepared_.heads, pool_, true, &tile_, &out->sides));
    CountProducts();
    ASSAY_ASSIGN_OR_RETURN(out->thresholds, OwnThresholds(tile_, out->sides, ReaderOf(tile_)));
    return absl::OkStatus();
  }

  void CountWeights() {
    if (counters_ == nullptr) return;
    for (size_t h = 0; h < prepared_.heads.size(); ++h) {
      if (prepared_.heads[h] == nullptr) continue;
      counters_->weight_bytes += job_.own_columns() * plan_.heads[h].hidden * 2;
    }
  }

  void CountProducts() {
    if (counters_ == nullptr) return;
    for (const Source& source : job_.sources) {
      if (!source.head) continue;
      counters_->multiply_adds +=
          tile_.rows() * job_.own_columns() * plan_.heads[*source.head].hidden;
    }
  }

  const Job& job_;
  const ReplayPlan& plan_;
  const Prepared& prepared_;
  ThreadPool& pool_;
  Collective& collective_;
  const ReplayProgress& progress_;
  ReplayCounters* const counters_;
  Tile& tile_;
  RowFeed feed_;
};

// Bytes of the largest tile of a job.
uint64_t TileBytes(const Job& job) {
  uint64_t rows = 0;
  for (const ReplayContext& c : job.plan->contexts) rows = std::max(rows, c.observed.size());
  if (job.plan->row_tile > 0) rows = std::min(rows, job.plan->row_tile);
  return job.sources.size() * rows * job.own_columns() * (job.wide ? 8 : 4);
}

}  // namespace

struct ReplayEngine::State {
  explicit State(int threads) : pool(threads) {}
  // This rank's GPU: that of the identity, or one that is opened now and proven to be like it.
  absl::Status OpenDevice(int rank);
  // The tile of earlier runs where this one needs as much memory: fresh pages cost more than some
  // passes over them.
  Tile& TileFor(const Job& job);

  ThreadPool pool;
  HeadStore heads;
  Tile tile;
  uint64_t tile_bytes = 0;
  std::unique_ptr<ReplayDevice> device;
};

Tile& ReplayEngine::State::TileFor(const Job& job) {
  if (const uint64_t bytes = TileBytes(job); bytes != tile_bytes) {
    tile = Tile();
    tile_bytes = bytes;
  }
  return tile;
}

absl::Status ReplayEngine::State::OpenDevice(int rank) {
  if (device != nullptr) return absl::OkStatus();
  if (rank == OwnRank()) device = std::move(ProvenSpare());
  if (device != nullptr) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(ProvenDevice proven, OpenProvenDevice(rank));
  if (proven.description != ProcessIdentity()->cuda ||
      proven.digest != ProcessIdentity()->self_test_sha256_cuda) {
    return InternalError("SELF_TEST_FAILED",
                         "rank " + std::to_string(rank) +
                             " has another GPU than its process told at start (" +
                             proven.description + "); a group's GPUs must be alike");
  }
  device = std::move(proven.device);
  return absl::OkStatus();
}

ReplayEngine::ReplayEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
ReplayEngine::~ReplayEngine() = default;

absl::StatusOr<std::unique_ptr<ReplayEngine>> ReplayEngine::Create(int threads) {
  if (threads < 1 || threads > kThreadsMax) {
    return InvalidError("PLAN_INVALID", "threads must be 1 to " + std::to_string(kThreadsMax));
  }
  ASSAY_RETURN_IF_ERROR(ProcessIdentity().status());
  return std::unique_ptr<ReplayEngine>(new ReplayEngine(std::make_unique<State>(threads)));
}

const ReplayIdentity& ReplayEngine::identity() const { return *ProcessIdentity(); }

absl::StatusOr<ReplayResult> ReplayEngine::Run(const ReplayPlan& plan, Collective& collective,
                                               const ReplayProgress& progress,
                                               ReplayCounters* counters) {
  try {
    ASSAY_ASSIGN_OR_RETURN(const Job job, ResolveJob(plan, collective.rank(), collective.size()));
    ASSAY_ASSIGN_OR_RETURN(const Prepared prepared,
                           PrepareRun(job, &state_->heads, state_->pool, collective));
    if (prepared.backend == ReplayBackend::kCudaBf16) {
      const ReplayIdentity& own = *ProcessIdentity();
      ASSAY_RETURN_IF_ERROR(AgreeOnDevices(state_->OpenDevice(collective.rank()), own.cuda,
                                           own.self_test_sha256_cuda, collective));
      return RunOnDevice(job, prepared, *state_->device, collective, progress, counters);
    }
    return Replay(job, prepared, state_->pool, state_->TileFor(job), collective, progress, counters)
        .Run();
  } catch (const std::bad_alloc&) {
    return ExhaustedError("OUT_OF_MEMORY",
                          "the replay ran out of memory; use a smaller row tile or more ranks");
  } catch (const std::exception& e) {
    return InternalError("REPLAY_FAILED", e.what());
  }
}

absl::StatusOr<ReplayResult> RunReplay(const ReplayPlan& plan, Collective& collective, int threads,
                                       const ReplayProgress& progress, ReplayCounters* counters) {
  ASSAY_ASSIGN_OR_RETURN(const std::unique_ptr<ReplayEngine> engine, ReplayEngine::Create(threads));
  return engine->Run(plan, collective, progress, counters);
}

}  // namespace assay
