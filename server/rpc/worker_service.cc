#include "server/rpc/worker_service.h"

#include <algorithm>

#include "server/core/unit_document.h"
#include "server/rpc/convert.h"
#include "server/rpc/gate.h"
#include "server/rpc/page.h"
#include "server/rpc/status.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/utf8.h"

namespace assay::rpc {
namespace {

constexpr int64_t kWaitMax = 30'000;
constexpr size_t kIdentityBytesMax = size_t{64} << 10;
constexpr size_t kHostBytesMax = size_t{16} << 10;
constexpr size_t kResultBytesMax = size_t{2} << 20;
constexpr int kListMax = 16;
constexpr size_t kWorkerIdMax = 128;
constexpr size_t kMessageBytesMax = 4096;
constexpr size_t kCountersBytesMax = size_t{64} << 10;
constexpr size_t kReasonBytesMax = 128;
constexpr int64_t kRankAttemptsMax = 1'000'000;

// Canonical form of an identity, so that equal kernels have equal text however the agent wrote it.
absl::StatusOr<std::string> Identity(const std::string& text, const char* what) {
  if (text.empty() || text == "null") return std::string();
  if (text.size() > kIdentityBytesMax)
    return InvalidError("WORKER_INVALID", std::string(what) + " is too long");
  ASSAY_ASSIGN_OR_RETURN(const Json json, ParseJson(text, what));
  if (!json.is_object())
    return InvalidError("WORKER_INVALID", std::string(what) + " must be a JSON object");
  return CanonicalJson(json);
}

std::string OperandOf(const std::string& fields_json) {
  const auto json = ParseJson(fields_json, "error_fields_json");
  if (!json.ok() || !json->is_object() || !json->contains("operand") ||
      !json->at("operand").is_string())
    return "";
  return json->at("operand").get<std::string>();
}

absl::Status CheckRequest(const v1::SynchronizeRequest& request) {
  if (request.protocol_version() != kProtocolVersion) {
    return PreconditionError("PROTOCOL_VERSION",
                             "the worker speaks protocol " +
                                 std::to_string(request.protocol_version()) +
                                 ", this coordinator protocol 1; use builds of one release");
  }
  const std::string& id = request.worker_id();
  const bool plain =
      !id.empty() && id.size() <= kWorkerIdMax &&
      id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
          std::string::npos;
  const std::string& incarnation = request.incarnation();
  const bool hex = incarnation.size() >= 16 && incarnation.size() <= 64 &&
                   incarnation.find_first_not_of("0123456789abcdef") == std::string::npos;
  const int tp = request.tp();
  if (!plain || !hex || (tp != 1 && tp != 2 && tp != 4 && tp != 8) ||
      request.leases_size() > kListMax || request.results_size() > kListMax ||
      request.free_slots() < 0 || request.free_slots() > kListMax ||
      request.host_json().size() > kHostBytesMax) {
    return InvalidError("WORKER_INVALID",
                        "worker_id, incarnation, tp, free_slots or a list is outside its limits");
  }
  for (const auto& result : request.results()) {
    if (result.result_json().size() > kResultBytesMax) {
      return InvalidError("WORKER_INVALID", "a result has more than 2 MiB");
    }
    if (result.counters_json().size() > kCountersBytesMax ||
        result.error().reason().size() > kReasonBytesMax ||
        result.error().code().size() > kReasonBytesMax) {
      return InvalidError("WORKER_INVALID",
                          "counters_json, or the reason or code of an error, is too long");
    }
    if (result.result_json().empty() == result.error().reason().empty()) {
      return InvalidError("WORKER_INVALID",
                          "a result has either result_json or an error with a reason");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Synchronize> FromProto(const v1::SynchronizeRequest& request) {
  ASSAY_RETURN_IF_ERROR(CheckRequest(request));
  Synchronize out;
  out.worker = request.worker_id();
  out.incarnation = request.incarnation();
  out.build = CutUtf8(request.build_id(), kWorkerIdMax);
  out.host_json = request.host_json();
  out.tp = request.tp();
  ASSAY_ASSIGN_OR_RETURN(out.replay_identity,
                         Identity(request.replay_identity_json(), "replay_identity_json"));
  ASSAY_ASSIGN_OR_RETURN(out.capture_identity,
                         Identity(request.capture_identity_json(), "capture_identity_json"));
  out.draining = request.draining();
  out.free_slots = request.free_slots();
  for (const auto& lease : request.leases()) {
    out.leases.push_back({lease.lease_id(), lease.contexts_done(), lease.contexts_total()});
  }
  for (const auto& result : request.results()) {
    LeaseResult r;
    r.lease = result.lease_id();
    r.result_json = result.result_json();
    r.error = {result.error().code(), result.error().reason(),
               CutUtf8(result.error().message(), kMessageBytesMax)};
    r.retryable = result.retryable();
    r.error_operand = OperandOf(result.error_fields_json());
    r.counters_json = result.counters_json();
    r.wall_ms = result.wall_ms();
    r.rank_attempts = std::clamp<int64_t>(result.rank_attempts(), 0, kRankAttemptsMax);
    out.results.push_back(std::move(r));
  }
  return out;
}

v1::ResultAck::Outcome AckOf(AckKind kind) {
  switch (kind) {
    case AckKind::kAccepted:
      return v1::ResultAck::ACCEPTED;
    case AckKind::kDuplicate:
      return v1::ResultAck::DUPLICATE;
    case AckKind::kDifferent:
      return v1::ResultAck::DIFFERENT;
    case AckKind::kStale:
      return v1::ResultAck::STALE;
    case AckKind::kInvalid:
      return v1::ResultAck::INVALID;
  }
  return v1::ResultAck::OUTCOME_UNSPECIFIED;
}

void FillAnswer(const Engine& engine, const SyncResult& result, v1::SynchronizeResponse* out) {
  out->set_coordinator_epoch(engine.Read([](const State& s) { return s.epoch; }));
  for (const LeaseDocument& document : result.start) {
    auto* lease = out->add_start();
    lease->set_lease_id(document.grant.lease);
    lease->set_unit(ToProto(document.unit).name());
    if (!document.grant.run.empty()) lease->set_run("runs/" + document.grant.run);
    lease->set_kind(std::string(LeaseKind(document.unit.kind)));
    lease->set_attempt(document.unit.attempt);
    lease->set_ttl_ms(engine.options().core.lease_ms);
    lease->set_unit_json(document.unit_json);
  }
  for (const std::string& lease : result.answer.cancel) out->add_cancel(lease);
  for (const std::string& lease : result.answer.renewed) out->add_renewed(lease);
  for (const Ack& ack : result.answer.acks) {
    auto* a = out->add_acks();
    a->set_lease_id(ack.lease);
    a->set_outcome(AckOf(ack.kind));
    a->set_message(ack.message);
  }
  out->set_next_sync_ms(result.answer.next_sync_ms);
  out->set_drain(false);
  out->set_protocol_version(kProtocolVersion);
  out->set_build_id(engine.options().core.build_id);
}

// Who delivered what, and what became of it.
void AuditResults(const v1::SynchronizeRequest& request, const absl::StatusOr<SyncResult>& result,
                  Call* call) {
  const std::string worker = "workers/" + request.worker_id() + " lease ";
  for (const auto& delivered : request.results()) {
    std::string outcome(absl::StatusCodeToString(result.status().code()));
    if (result.ok()) {
      for (const Ack& ack : result->answer.acks) {
        if (ack.lease == delivered.lease_id())
          outcome = v1::ResultAck::Outcome_Name(AckOf(ack.kind));
      }
    }
    call->Audit(worker + CutUtf8(delivered.lease_id(), kWorkerIdMax), outcome,
                delivered.error().reason());
  }
}

}  // namespace

absl::Status WorkerServiceImpl::CheckOwner(const std::string& worker,
                                           const std::string& principal) {
  const std::lock_guard lock(mutex_);
  const auto owner = owners_.find(worker);
  if (owner != owners_.end() && owner->second != principal) {
    return Error(absl::StatusCode::kPermissionDenied, "WORKER_OF_ANOTHER",
                 "workers/" + worker +
                     " came with another token before; give this worker another "
                     "--name");
  }
  if (owner == owners_.end() && owners_.size() < engine_->options().core.workers_max) {
    owners_.emplace(worker, principal);
  }
  return absl::OkStatus();
}

grpc::Status WorkerServiceImpl::Synchronize(grpc::ServerContext* context,
                                            const v1::SynchronizeRequest* request,
                                            v1::SynchronizeResponse* response) {
  Call call(gate_, context, "WorkerService/Synchronize");
  if (!call.admitted()) return call.refusal();
  auto command = FromProto(*request);
  if (!command.ok()) return ToGrpc(command.status(), context, "workers/" + request->worker_id());
  if (const absl::Status mine = CheckOwner(request->worker_id(), call.principal()); !mine.ok()) {
    return call.Answer(mine, "workers/" + request->worker_id());
  }
  const int64_t wait_ms = std::clamp<int64_t>(request->wait_ms(), 0, kWaitMax);
  const auto result = engine_->Sync(call.principal(), *std::move(command), wait_ms,
                                    [context] { return context->IsCancelled(); });
  if (!request->results().empty()) AuditResults(*request, result, &call);
  if (!result.ok()) return ToGrpc(result.status(), context, "workers/" + request->worker_id());
  FillAnswer(*engine_, *result, response);
  return grpc::Status::OK;
}

grpc::Status WorkerAdminServiceImpl::ListWorkers(grpc::ServerContext* context,
                                                 const v1::ListWorkersRequest* request,
                                                 v1::ListWorkersResponse* out) {
  Call call(gate_, context, "WorkerAdminService/ListWorkers");
  if (!call.admitted()) return call.refusal();
  auto workers = engine_->Read([](const State& s) {
    std::vector<v1::Worker> list;
    for (const auto& [id, worker] : s.workers) list.push_back(ToProto(s, worker));
    return list;
  });
  auto page = CutPage(std::move(workers), request->page().page_size(), request->page().page_token(),
                      "workers");
  if (!page.ok()) return ToGrpc(page.status(), context);
  FillPage(*page, "workers", out, [&](const v1::Worker& worker) {
    auto* added = out->add_workers();
    *added = worker;
    return added;
  });
  return grpc::Status::OK;
}

}  // namespace assay::rpc
