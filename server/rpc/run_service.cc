#include "server/rpc/run_service.h"

#include <algorithm>

#include "server/core/progress.h"
#include "server/rpc/convert.h"
#include "server/rpc/gate.h"
#include "server/rpc/page.h"
#include "server/rpc/status.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/head.h"
#include "storage/format/safetensors.h"

namespace assay::rpc {
namespace {

constexpr int64_t kProgressEveryMs = 500;
constexpr size_t kEventsAtOnce = 256;

// Fills what the core needs to know of the suite.
absl::Status FillFromSuite(Engine& engine, RunRow* run) {
  const bool known = engine.Read([&](const State& s) { return s.suites.count(run->suite) != 0; });
  if (!known) return NotFoundError("SUITE_UNKNOWN", "suites/" + run->suite + " was never created");
  ASSAY_ASSIGN_OR_RETURN(const auto suite, engine.GetSuite(run->suite));
  ASSAY_ASSIGN_OR_RETURN(std::vector<size_t> selected, SelectContexts(*suite, run->filter));
  // A limit that leaves nothing out asks for the same work as none.
  if (run->limit >= static_cast<int64_t>(selected.size())) run->limit = 0;
  if (run->limit > 0) selected = LimitContexts(*suite, selected, run->limit);
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

// The bias of an operand's head: its size and the digest of its values.
absl::Status FillBias(Engine& engine, OperandRow* source) {
  if (source->bias_file.empty()) return absl::OkStatus();
  BlobStore& blobs = engine.blobs();
  ASSAY_ASSIGN_OR_RETURN(source->bias_bytes, blobs.Size(source->bias_file));
  ASSAY_RETURN_IF_ERROR(blobs.Verify(source->bias_file));
  ASSAY_ASSIGN_OR_RETURN(const std::string path, blobs.LocalPath(source->bias_file));
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  const int64_t vocab = engine.Read([&](const State& s) {
    const auto head = s.heads.find(source->given_head);
    return head == s.heads.end() ? int64_t{0} : head->second.vocab;
  });
  if (vocab == 0) {
    return InvalidError("HEAD_UNKNOWN", "a head bias belongs to a head that is given by name");
  }
  ASSAY_ASSIGN_OR_RETURN(const HeadBias bias,
                         ReadHeadBias(*file, source->bias_tensor, static_cast<uint64_t>(vocab)));
  source->bias_tensor = bias.tensor;
  source->bias = bias.content_sha256;
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

absl::StatusOr<v1::Run> RunServiceImpl::DoCreate(const std::string& principal,
                                                 const v1::CreateRunRequest& request) {
  assay::CreateRun command;
  ASSAY_ASSIGN_OR_RETURN(command.run, FromProto(request));
  ASSAY_RETURN_IF_ERROR(FillFromSuite(*engine_, &command.run));
  ASSAY_RETURN_IF_ERROR(FillBias(*engine_, &command.run.reference));
  for (CandidateRow& candidate : command.run.candidates) {
    ASSAY_RETURN_IF_ERROR(FillBias(*engine_, &candidate.source));
  }
  const Outcome outcome = engine_->Execute({principal, std::move(command)});
  ASSAY_RETURN_IF_ERROR(outcome.status);
  const RunAnswer& answer = std::get<RunAnswer>(outcome.answer);
  ASSAY_ASSIGN_OR_RETURN(v1::Run run, Find(answer.run));
  run.set_existing(answer.existing);
  return run;
}

grpc::Status RunServiceImpl::CreateRun(grpc::ServerContext* context,
                                       const v1::CreateRunRequest* request, v1::Run* out) {
  Call call(gate_, context, "RunService/CreateRun");
  if (!call.admitted()) return call.refusal();
  auto run = DoCreate(call.principal(), *request);
  if (!run.ok()) return call.Answer(run.status(), "");
  *out = *std::move(run);
  return call.Answer(absl::OkStatus(), out->name());
}

grpc::Status RunServiceImpl::GetRun(grpc::ServerContext* context, const v1::GetRunRequest* request,
                                    v1::Run* out) {
  Call call(gate_, context, "RunService/GetRun");
  if (!call.admitted()) return call.refusal();
  const auto id = IdOf(request->name(), "runs");
  if (!id.ok()) return ToGrpc(id.status(), context, request->name());
  auto run = Find(*id);
  if (!run.ok()) return ToGrpc(run.status(), context, request->name());
  *out = *std::move(run);
  return grpc::Status::OK;
}

// Newest first. The token is the serial of the last run given, so that runs created between two
// pages neither repeat a run nor leave one out.
grpc::Status RunServiceImpl::ListRuns(grpc::ServerContext* context,
                                      const v1::ListRunsRequest* request,
                                      v1::ListRunsResponse* out) {
  Call call(gate_, context, "RunService/ListRuns");
  if (!call.admitted()) return call.refusal();
  const auto before = ParseToken(request->page().page_token(), "runs");
  if (!before.ok()) return ToGrpc(before.status(), context);
  const auto size = PageSize(request->page().page_size());
  if (!size.ok()) return ToGrpc(size.status(), context);
  // One more than the page holds tells whether another page follows.
  const auto rows = engine_->Read([&](const State& s) {
    std::vector<std::pair<uint64_t, std::string>> list;
    auto it = before->has_value() ? s.run_order.lower_bound(**before) : s.run_order.end();
    while (it != s.run_order.begin() && list.size() <= *size) list.emplace_back(*--it);
    return list;
  });
  size_t bytes = 0;
  for (const auto& [serial, id] : rows) {
    auto* run = out->add_runs();
    if (auto found = Find(id); found.ok()) *run = *std::move(found);
    bytes += run->ByteSizeLong();
    if (static_cast<size_t>(out->runs_size()) == rows.size()) break;
    if (static_cast<size_t>(out->runs_size()) < *size && bytes <= kPageBytesMax) continue;
    out->set_next_page_token("runs:" + std::to_string(serial));
    break;
  }
  return grpc::Status::OK;
}

absl::StatusOr<v1::Run> RunServiceImpl::DoCancel(const Call& call, const std::string& name) {
  ASSAY_ASSIGN_OR_RETURN(const std::string id, IdOf(name, "runs"));
  const bool foreign = engine_->Read([&](const State& s) {
    const auto run = s.runs.find(id);
    return run != s.runs.end() && run->second.principal != call.principal();
  });
  if (foreign && !call.is_admin()) {
    return Error(absl::StatusCode::kPermissionDenied, "RUN_OF_ANOTHER",
                 name +
                     " was submitted with another token; its owner or an administrator may "
                     "cancel it");
  }
  ASSAY_RETURN_IF_ERROR(engine_->Execute({call.principal(), assay::CancelRun{id}}).status);
  return Find(id);
}

grpc::Status RunServiceImpl::CancelRun(grpc::ServerContext* context,
                                       const v1::CancelRunRequest* request, v1::Run* out) {
  Call call(gate_, context, "RunService/CancelRun");
  if (!call.admitted()) return call.refusal();
  auto run = DoCancel(call, request->name());
  if (!run.ok()) return call.Answer(run.status(), request->name());
  *out = *std::move(run);
  return call.Answer(absl::OkStatus(), out->name());
}

grpc::Status RunServiceImpl::ListUnits(grpc::ServerContext* context,
                                       const v1::ListUnitsRequest* request,
                                       v1::ListUnitsResponse* out) {
  Call call(gate_, context, "RunService/ListUnits");
  if (!call.admitted()) return call.refusal();
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
  Call call(gate_, context, "RunService/WatchRun");
  if (!call.admitted()) return call.refusal();
  // Each watcher holds one of the server's threads for as long as it watches.
  const int watchers = ++watchers_;
  absl::Status status =
      watchers > watchers_max_
          ? ExhaustedError("TOO_MANY_WATCHERS",
                           std::to_string(watchers_max_) +
                               " calls are watching runs already; ask for the run's state now "
                               "and then instead (assay runs), or watch later")
          : DoWatch(context, *request, writer);
  --watchers_;
  return ToGrpc(status, context, request->name());
}

}  // namespace assay::rpc
