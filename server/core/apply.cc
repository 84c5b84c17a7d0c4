#include "server/core/apply.h"

#include "server/core/steps.h"

namespace assay {
namespace {

absl::Status Add(Txn& t, const AddResources& command) {
  for (const Row& row : command.rows) {
    std::visit(
        [&](const auto& r) {
          using R = std::decay_t<decltype(r)>;
          bool known = false;
          if constexpr (std::is_same_v<R, SuiteRow>) known = t.s.suites.count(r.id) != 0;
          if constexpr (std::is_same_v<R, ModelRow>) known = t.s.models.count(r.id) != 0;
          if constexpr (std::is_same_v<R, HeadRow>) known = t.s.heads.count(r.id) != 0;
          if constexpr (std::is_same_v<R, CaptureRow>) known = t.s.captures.count(r.id) != 0;
          if constexpr (std::is_same_v<R, CaptureFileRow>) {
            known = t.s.files[r.capture][r.generation == 0 ? 0 : 1].count(r.index) != 0;
          }
          if (!known) t.Put(r);
        },
        row);
  }
  return absl::OkStatus();
}

struct Dispatcher {
  Txn& t;
  const Command& command;
  Outcome& out;

  template <class T>
  void Answer(absl::StatusOr<T> answer) {
    if (answer.ok()) {
      out.answer = *std::move(answer);
    } else {
      out.status = answer.status();
    }
  }
  void operator()(const CreateRun& c) { Answer(core::DoCreateRun(t, command.principal, c)); }
  void operator()(const CancelRun& c) { Answer(core::DoCancelRun(t, c)); }
  void operator()(const AddResources& c) { out.status = Add(t, c); }
  void operator()(const Synchronize& c) { Answer(core::DoSynchronize(t, c)); }
  void operator()(const Tick& c) { core::DoTick(t, c); }
  void operator()(const SealDone& c) { out.status = core::DoSealDone(t, c); }
  void operator()(const SealFailed& c) { out.status = core::DoSealFailed(t, c); }
  void operator()(const DocumentFailed& c) { core::DoDocumentFailed(t, c); }
  void operator()(const DropCaptures& c) { core::DoDropCaptures(t, c); }
  void operator()(const ForgetBlobs& c) { core::ForgetBlobs(t, c.blobs); }
  void operator()(const ExpireRuns& c) { core::DoExpireRuns(t, c); }
  void operator()(const Start& c) { core::DoStart(t, c); }
};

}  // namespace

Outcome Apply(State& state, const Command& command, const Now& now) {
  Outcome out;
  Txn t(state, now);
  std::visit(Dispatcher{t, command, out}, command.body);
  out.rows = t.Finish();
  out.removed = std::move(t.removed);
  out.effects = std::move(t.effects);
  return out;
}

}  // namespace assay
