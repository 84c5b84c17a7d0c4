#include "server/rpc/run_service.h"

#include <algorithm>

#include "server/core/progress.h"
#include "server/rpc/convert.h"
#include "server/rpc/page.h"
#include "server/rpc/status.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::rpc {
namespace {

constexpr int64_t kProgressEveryMs = 500;
constexpr size_t kEventsAtOnce = 256;

// Fills what the core needs to know of the suite.
absl::Status FillFromSuite(Engine& engine, RunRow* run) {
  const bool known = engine.Read([&](const State& s) { return s.suites.count(run->suite) != 0; });
  if (!known) return NotFoundError("SUITE_UNKNOWN", "suites/" + run->suite + " was never created");
  ASSAY_ASSIGN_OR_RETURN(const auto suite, engine.GetSuite(run->suite));
  ASSAY_ASSIGN_OR_RETURN(const std::vector<size_t> selected, SelectContexts(*suite, run->filter));
  run->context_length = suite->context_length;
  for (const size_t at : selected) {
    const SuiteContext& context = suite->contexts[at];
    run->contexts.push_back(context.index);
    if (context.sentinel) run->sentinels.push_back(context.index);
    for (const int32_t token : context.tokens)
      run->max_token = std::max<int64_t>(run->max_token, token);
  }
  return absl::OkStatus();
}

void SetProgress(const PhaseProgress& from, v1::PhaseProgress* to) {
  to->set_phase(from.phase);
  to->set_units_done(from.units_done);
  to->set_units_total(from.units_total);
  to->set_contexts_done(from.contexts_done);
  to->set_contexts_total(from.contexts_total);
  to->set_tokens_done(from.tokens_done);
  to->set_tokens_total(from.tokens_total);
  to->set_tokens_per_second(from.tokens_per_second);
  to->set_eta_ms(from.eta_ms);
}

}  // namespace

absl::StatusOr<v1::Run> RunServiceImpl::Find(const std::string& id) const {
  return engine_->Read([&](const State& s) -> absl::StatusOr<v1::Run> {
    const auto it = s.runs.find(id);
    if (it == s.runs.end()) return NotFoundError("RUN_UNKNOWN", "runs/" + id + " does not exist");
    return ToProto(s, it->second);
  });
}

absl::StatusOr<v1::Run> RunServiceImpl::DoCreate(const v1::CreateRunRequest& request) {
  assay::CreateRun command;
  ASSAY_ASSIGN_OR_RETURN(command.run, FromProto(request));
  ASSAY_RETURN_IF_ERROR(FillFromSuite(*engine_, &command.run));
  const Outcome outcome = engine_->Execute({"local", std::move(command)});
  ASSAY_RETURN_IF_ERROR(outcome.status);
  const RunAnswer& answer = std::get<RunAnswer>(outcome.answer);
  ASSAY_ASSIGN_OR_RETURN(v1::Run run, Find(answer.run));
  run.set_existing(answer.existing);
  return run;
}

grpc::Status RunServiceImpl::CreateRun(grpc::ServerContext* context,
                                       const v1::CreateRunRequest* request, v1::Run* out) {
  auto run = DoCreate(*request);
  if (!run.ok()) return ToGrpc(run.status(), context);
  *out = *std::move(run);
  return grpc::Status::OK;
}

grpc::Status RunServiceImpl::GetRun(grpc::ServerContext* context, const v1::GetRunRequest* request,
                                    v1::Run* out) {
  const auto id = IdOf(request->name(), "runs");
  if (!id.ok()) return ToGrpc(id.status(), context, request->name());
  auto run = Find(*id);
  if (!run.ok()) return ToGrpc(run.status(), context, request->name());
  *out = *std::move(run);
  return grpc::Status::OK;
}

grpc::Status RunServiceImpl::ListRuns(grpc::ServerContext* context,
                                      const v1::ListRunsRequest* request,
                                      v1::ListRunsResponse* out) {
  std::vector<std::string> ids = engine_->Read([](const State& s) {
    std::vector<std::string> list;
    for (auto it = s.run_order.rbegin(); it != s.run_order.rend(); ++it) list.push_back(it->second);
    return list;
  });
  auto page =
      CutPage(std::move(ids), request->page().page_size(), request->page().page_token(), "runs");
  if (!page.ok()) return ToGrpc(page.status(), context);
  FillPage(*page, "runs", out, [&](const std::string& id) {
    auto* run = out->add_runs();
    if (auto found = Find(id); found.ok()) *run = *std::move(found);
    return run;
  });
  return grpc::Status::OK;
}

grpc::Status RunServiceImpl::CancelRun(grpc::ServerContext* context,
                                       const v1::CancelRunRequest* request, v1::Run* out) {
  const auto id = IdOf(request->name(), "runs");
  if (!id.ok()) return ToGrpc(id.status(), context, request->name());
  const Outcome outcome = engine_->Execute({"local", assay::CancelRun{*id}});
  if (!outcome.status.ok()) return ToGrpc(outcome.status, context, request->name());
  auto run = Find(*id);
  if (!run.ok()) return ToGrpc(run.status(), context, request->name());
  *out = *std::move(run);
  return grpc::Status::OK;
}

grpc::Status RunServiceImpl::ListUnits(grpc::ServerContext* context,
                                       const v1::ListUnitsRequest* request,
                                       v1::ListUnitsResponse* out) {
  const auto id = IdOf(request->run(), "runs");
  if (!id.ok()) return ToGrpc(id.status(), context, request->run());
  bool found = false;
  std::vector<UnitRow> units = engine_->Read([&](const State& s) {
    std::vector<UnitRow> list;
    const auto run = s.runs.find(*id);
    found = run != s.runs.end();
    if (!found) return list;
    std::set<uint64_t> ids;
    const auto add = [&](const auto& map, const std::string& key) {
      if (const auto it = map.find(key); it != map.end())
        ids.insert(it->second.begin(), it->second.end());
    };
    add(s.units_of_run, *id);
    std::vector<const OperandRow*> operands = {&run->second.reference};
    for (const CandidateRow& candidate : run->second.candidates)
      operands.push_back(&candidate.source);
    for (const OperandRow* op : operands) {
      add(s.units_of_model, op->model);
      add(s.units_of_capture, op->capture);
    }
    for (const uint64_t unit : ids) list.push_back(s.units.at(unit));
    return list;
  });
  if (!found)
    return ToGrpc(NotFoundError("RUN_UNKNOWN", request->run() + " does not exist"), context,
                  request->run());
  auto page =
      CutPage(std::move(units), request->page().page_size(), request->page().page_token(), "units");
  if (!page.ok()) return ToGrpc(page.status(), context);
  FillPage(*page, "units", out, [&](const UnitRow& row) {
    auto* unit = out->add_units();
    *unit = ToProto(row);
    return unit;
  });
  return grpc::Status::OK;
}

absl::Status RunServiceImpl::DoWatch(grpc::ServerContext* context,
                                     const v1::WatchRunRequest& request,
                                     grpc::ServerWriter<v1::RunEvent>* writer) {
  const auto gone = [] {
    return Error(absl::StatusCode::kCancelled, "CALL_CANCELLED", "the watcher went away");
  };
  ASSAY_ASSIGN_OR_RETURN(const std::string id, IdOf(request.name(), "runs"));
  uint64_t after = request.from_revision();
  std::string last_progress;
  while (!context->IsCancelled()) {
    const uint64_t version = engine_->version();
    ASSAY_ASSIGN_OR_RETURN(const v1::Run run, Find(id));
    ASSAY_ASSIGN_OR_RETURN(const auto events,
                           engine_->catalogue().Events(id, after, kEventsAtOnce));
    for (const EventRow& event : events) {
      v1::RunEvent out;
      out.set_kind(static_cast<v1::RunEvent::Kind>(event.kind));
      out.set_revision(event.revision);
      out.set_time(event.time_ms);
      out.set_reason(event.reason);
      out.set_message(event.message);
      if (event.kind != EventKind::kNote) *out.mutable_run() = run;
      if (!writer->Write(out)) return gone();
      after = event.revision;
    }
    if (events.size() == kEventsAtOnce) continue;
    const Now now = engine_->now();
    const auto phases =
        engine_->Read([&](const State& s) { return ProgressOf(s, s.runs.at(id), now); });
    v1::RunEvent progress;
    progress.set_kind(v1::RunEvent::PROGRESS);
    std::string text;
    for (const PhaseProgress& phase : phases) {
      text += phase.phase + std::to_string(phase.units_done) + "/" +
              std::to_string(phase.contexts_done) + ";";
    }
    if (!phases.empty() && text != last_progress) {
      for (const PhaseProgress& phase : phases) {
        SetProgress(phase, progress.mutable_progress());
        progress.set_revision(after);
        progress.set_time(now.unix_ms);
        if (!writer->Write(progress)) return gone();
      }
      last_progress = text;
    }
    if (run.end_time() != 0 && after >= run.revision()) return absl::OkStatus();
    if (engine_->draining()) {
      return UnavailableError(
          "DRAINING",
          "the coordinator is stopping; watch again from revision " + std::to_string(after));
    }
    engine_->WaitChange(version, kProgressEveryMs);
  }
  return gone();
}

grpc::Status RunServiceImpl::WatchRun(grpc::ServerContext* context,
                                      const v1::WatchRunRequest* request,
                                      grpc::ServerWriter<v1::RunEvent>* writer) {
  return ToGrpc(DoWatch(context, *request, writer), context, request->name());
}

}  // namespace assay::rpc
