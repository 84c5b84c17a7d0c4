#include "client/lib/client.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "assay/v1/capture.grpc.pb.h"
#include "assay/v1/evidence.grpc.pb.h"
#include "assay/v1/head.grpc.pb.h"
#include "assay/v1/model.grpc.pb.h"
#include "assay/v1/report.grpc.pb.h"
#include "assay/v1/run.grpc.pb.h"
#include "assay/v1/suite.grpc.pb.h"
#include "assay/v1/worker.grpc.pb.h"
#include "client/lib/channel.h"
#include "client/lib/proto_json.h"
#include "fmt/format.h"
#include "storage/base/clock.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr int kPageSize = 200;
constexpr int64_t kWatchTimeoutMs = int64_t{24} * 3600 * 1000;
constexpr int64_t kStopCheckMs = 100;
constexpr int64_t kImportTimeoutMs = int64_t{3600} * 1000;  // every file is opened once

void Sleep(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Cancels a call when `stop` says so, from a thread of its own.
class StopGuard {
 public:
  StopGuard(grpc::ClientContext* context, const StopCheck& stop) {
    if (!stop) return;
    thread_ = std::thread([this, context, &stop] {
      while (!done_) {
        if (absl::Status status = stop(); !status.ok()) {
          status_ = std::move(status);
          context->TryCancel();
          return;
        }
        Sleep(kStopCheckMs);
      }
    });
  }
  ~StopGuard() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // Ends the checking; the status with which the call was stopped, OK when it was not.
  absl::Status Finish() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  std::atomic<bool> done_{false};
  absl::Status status_;
  std::thread thread_;
};

void SetSource(const RunOperand& operand, v1::OperandSource* source) {
  source->set_model(operand.model);
  source->set_capture(operand.capture);
  source->set_head(operand.head);
  source->set_head_origin_json(operand.head_origin_json);
  if (operand.bias_file.empty()) return;
  source->mutable_bias()->set_file_sha256(operand.bias_file);
  source->mutable_bias()->set_tensor(operand.bias_tensor);
}

v1::RunSpec SpecOf(const RunRequest& run) {
  v1::RunSpec spec;
  spec.set_suite(run.suite);
  spec.set_filter(run.filter);
  SetSource(run.reference, spec.mutable_reference());
  spec.set_reference_label(run.reference_label);
  for (const RunRequest::Candidate& candidate : run.candidates) {
    v1::CandidateSpec* added = spec.add_candidates();
    added->set_label(candidate.label);
    SetSource(candidate.source, added->mutable_source());
  }
  for (const std::string& head : run.heads) spec.add_heads(head);
  spec.set_numeric_policy(run.numeric_policy);
  spec.set_backend(run.backend);
  spec.set_logit_scale(run.logit_scale);
  spec.set_softcap(run.softcap);
  spec.set_valid_vocab(run.valid_vocab);
  spec.set_score_from(run.score_from);
  spec.set_vocab_chunk(run.vocab_chunk);
  spec.set_limit(run.limit);
  spec.set_allow_infinite(run.allow_infinite);
  spec.set_unit_contexts(run.unit_contexts);
  spec.set_fresh(run.fresh);
  return spec;
}

}  // namespace

struct Client::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : channel(channel),
        suites(channel),
        models(channel),
        heads(channel),
        captures(channel),
        evidence(channel),
        runs(channel),
        reports(channel),
        receipts(channel),
        workers(channel) {}
  const std::shared_ptr<grpc::Channel> channel;
  v1::SuiteService::Stub suites;
  v1::ModelService::Stub models;
  v1::HeadService::Stub heads;
  v1::CaptureService::Stub captures;
  v1::EvidenceService::Stub evidence;
  v1::RunService::Stub runs;
  v1::ReportService::Stub reports;
  v1::ReceiptService::Stub receipts;
  v1::WorkerAdminService::Stub workers;
};

bool RunHasEnded(const Json& run) {
  const std::string state = run.value("state", "");
  return state == "SUCCEEDED" || state == "FAILED" || state == "CANCELLED";
}

Client::Client(std::string address, std::shared_ptr<grpc::Channel> channel, ClientOptions options)
    : address_(std::move(address)),
      options_(std::move(options)),
      stubs_(std::make_unique<Stubs>(channel)),
      blobs_(std::move(channel), address_) {}

Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        ClientOptions options) {
  ASSAY_ASSIGN_OR_RETURN(auto channel, OpenChannel(address, options.security));
  return std::unique_ptr<Client>(new Client(address, std::move(channel), std::move(options)));
}

// Every call made through here is idempotent.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Json> Client::Call(const Stub& stub,
                                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                                  const Request& request) {
  Backoff backoff(100, 2000);
  for (int attempt = 1;; ++attempt) {
    grpc::ClientContext context;
    SetDeadline(&context, options_.call_timeout_ms);
    Response response;
    const absl::Status status =
        FromRpc((const_cast<Stub&>(stub).*method)(&context, request, &response), context, address_);
    if (status.ok()) return ProtoJson(response);
    if (!IsTransient(status) || attempt >= options_.attempts) return status;
    Sleep(backoff.NextMs());
  }
}

absl::Status Client::WaitReady(int64_t timeout_ms, const StopCheck& stop) {
  const int64_t deadline = Clock::Real()->MonotonicMillis() + timeout_ms;
  for (;;) {
    grpc::ClientContext context;
    SetDeadline(&context, 2000);
    v1::ListRunsRequest request;
    request.mutable_page()->set_page_size(1);
    v1::ListRunsResponse response;
    const absl::Status status =
        FromRpc(stubs_->runs.ListRuns(&context, request, &response), context, address_);
    if (status.ok()) return absl::OkStatus();
    if (stop) ASSAY_RETURN_IF_ERROR(stop());
    if (!IsTransient(status) || Clock::Real()->MonotonicMillis() >= deadline) return status;
    // Not a sleep alone: while nobody waits on the channel, gRPC reads from its connections only
    // every five seconds, so that the answer to a connection comes after the attempt was given up.
    stubs_->channel->WaitForConnected(std::chrono::system_clock::now() +
                                      std::chrono::milliseconds(250));
    Sleep(20);
  }
}

absl::StatusOr<Json> Client::CreateSuite(const std::string& manifest_sha256) {
  v1::CreateSuiteRequest request;
  request.set_manifest_sha256(manifest_sha256);
  return Call(stubs_->suites, &v1::SuiteService::Stub::CreateSuite, request);
}

absl::StatusOr<Json> Client::CreateModel(const std::string& manifest_json) {
  v1::CreateModelRequest request;
  request.set_manifest_json(manifest_json);
  return Call(stubs_->models, &v1::ModelService::Stub::CreateModel, request);
}

absl::StatusOr<Json> Client::GetModel(const std::string& name) {
  v1::GetModelRequest request;
  request.set_name(name);
  return Call(stubs_->models, &v1::ModelService::Stub::GetModel, request);
}

absl::StatusOr<Json> Client::CreateHead(const std::string& file_sha256, const std::string& tensor) {
  v1::CreateHeadRequest request;
  request.set_file_sha256(file_sha256);
  request.set_tensor(tensor);
  return Call(stubs_->heads, &v1::HeadService::Stub::CreateHead, request);
}

absl::StatusOr<Json> Client::PruneCaptures(const std::vector<std::string>& names, bool apply,
                                           bool sealed) {
  v1::PruneCapturesRequest request;
  for (const std::string& name : names) request.add_names(name);
  request.set_apply(apply);
  request.set_sealed(sealed);
  return Call(stubs_->captures, &v1::CaptureService::Stub::PruneCaptures, request);
}

absl::StatusOr<Json> Client::ImportCapture(const CaptureImport& import) {
  grpc::ClientContext context;
  SetDeadline(&context, kImportTimeoutMs);
  v1::Capture response;
  const auto stream = stubs_->captures.Ingest(&context, &response);
  v1::IngestRequest request;
  v1::IngestHeader* header = request.mutable_header();
  header->set_suite(import.suite);
  header->set_suite_token_sha256(import.suite_token_sha256);
  header->set_filter(import.filter);
  header->set_cut_point(import.cut_point);
  header->set_manifest_json(import.manifest_json);
  bool open = stream->Write(request);
  for (const CaptureImport::File& file : import.files) {
    if (!open) break;  // refused: Finish says why
    v1::IngestChunk* chunk = request.mutable_chunk();
    chunk->set_index(file.index);
    chunk->set_sha256(file.sha256);
    chunk->set_size(file.bytes);
    chunk->set_last(true);
    open = stream->Write(request);
  }
  stream->WritesDone();
  ASSAY_RETURN_IF_ERROR(FromRpc(stream->Finish(), context, address_));
  return ProtoJson(response);
}

absl::StatusOr<Json> Client::CreateRun(const std::string& request_id, const RunRequest& run) {
  v1::CreateRunRequest request;
  request.set_request_id(request_id);
  *request.mutable_spec() = SpecOf(run);
  return Call(stubs_->runs, &v1::RunService::Stub::CreateRun, request);
}

absl::StatusOr<Json> Client::GetRun(const std::string& name) {
  v1::GetRunRequest request;
  request.set_name(name);
  return Call(stubs_->runs, &v1::RunService::Stub::GetRun, request);
}

absl::StatusOr<Json> Client::CancelRun(const std::string& name) {
  v1::CancelRunRequest request;
  request.set_name(name);
  return Call(stubs_->runs, &v1::RunService::Stub::CancelRun, request);
}

absl::StatusOr<Json> Client::GetReport(const std::string& name) {
  v1::GetReportRequest request;
  request.set_name(name);
  return Call(stubs_->reports, &v1::ReportService::Stub::GetReport, request);
}

absl::StatusOr<Json> Client::GetReceipt(const std::string& name) {
  v1::GetReceiptRequest request;
  request.set_name(name);
  return Call(stubs_->receipts, &v1::ReceiptService::Stub::GetReceipt, request);
}

absl::StatusOr<Json> Client::GetPublicKey() {
  return Call(stubs_->receipts, &v1::ReceiptService::Stub::GetPublicKey, v1::GetPublicKeyRequest());
}

absl::StatusOr<Json> Client::GetLogProof(const std::string& receipt,
                                         const std::vector<uint64_t>& old_sizes) {
  v1::GetLogProofRequest request;
  request.set_receipt(receipt);
  for (const uint64_t size : old_sizes) request.add_old_sizes(size);
  ASSAY_ASSIGN_OR_RETURN(Json proof,
                         Call(stubs_->receipts, &v1::ReceiptService::Stub::GetLogProof, request));
  proof["schema"] = "assay-log-proof/1";
  if (receipt.empty()) proof["leaf_index"] = nullptr;
  return proof;
}

namespace {

// Every page of a list; `list` makes one call with a page token.
absl::StatusOr<Json> AllPages(std::string_view field,
                              const std::function<absl::StatusOr<Json>(const std::string&)>& list) {
  Json all = Json::array();
  std::string token;
  do {
    ASSAY_ASSIGN_OR_RETURN(Json page, list(token));
    for (Json& item : page[std::string(field)]) all.push_back(std::move(item));
    token = page.value("next_page_token", "");
  } while (!token.empty());
  return all;
}

template <typename Request>
Request PageOf(const std::string& token) {
  Request request;
  request.mutable_page()->set_page_size(kPageSize);
  request.mutable_page()->set_page_token(token);
  return request;
}

}  // namespace

absl::StatusOr<Json> Client::List(std::string_view what) {
  return AllPages(what, [&](const std::string& token) -> absl::StatusOr<Json> {
    if (what == "suites") {
      return Call(stubs_->suites, &v1::SuiteService::Stub::ListSuites,
                  PageOf<v1::ListSuitesRequest>(token));
    }
    if (what == "models") {
      return Call(stubs_->models, &v1::ModelService::Stub::ListModels,
                  PageOf<v1::ListModelsRequest>(token));
    }
    if (what == "captures") {
      return Call(stubs_->captures, &v1::CaptureService::Stub::ListCaptures,
                  PageOf<v1::ListCapturesRequest>(token));
    }
    if (what == "runs") {
      return Call(stubs_->runs, &v1::RunService::Stub::ListRuns,
                  PageOf<v1::ListRunsRequest>(token));
    }
    if (what == "reports") {
      return Call(stubs_->reports, &v1::ReportService::Stub::ListReports,
                  PageOf<v1::ListReportsRequest>(token));
    }
    if (what == "receipts") {
      return Call(stubs_->receipts, &v1::ReceiptService::Stub::ListReceipts,
                  PageOf<v1::ListReceiptsRequest>(token));
    }
    return Call(stubs_->workers, &v1::WorkerAdminService::Stub::ListWorkers,
                PageOf<v1::ListWorkersRequest>(token));
  });
}

absl::StatusOr<Json> Client::ListUnits(const std::string& run) {
  return AllPages("units", [&](const std::string& token) -> absl::StatusOr<Json> {
    auto request = PageOf<v1::ListUnitsRequest>(token);
    request.set_run(run);
    return Call(stubs_->runs, &v1::RunService::Stub::ListUnits, request);
  });
}

absl::StatusOr<Json> Client::ListDisputes(const std::string& run) {
  return AllPages("disputes", [&](const std::string& token) -> absl::StatusOr<Json> {
    auto request = PageOf<v1::ListDisputesRequest>(token);
    request.set_run(run);
    return Call(stubs_->evidence, &v1::EvidenceService::Stub::ListDisputes, request);
  });
}

absl::Status Client::WatchOnce(const std::string& name, uint64_t* revision, bool* heard,
                               const std::function<void(const Json&)>& on_event,
                               const StopCheck& stop) {
  v1::WatchRunRequest request;
  request.set_name(name);
  request.set_from_revision(*revision);
  grpc::ClientContext context;
  SetDeadline(&context, kWatchTimeoutMs);
  StopGuard guard(&context, stop);
  const auto stream = stubs_->runs.WatchRun(&context, request);
  v1::RunEvent event;
  while (stream->Read(&event)) {
    *heard = true;
    *revision = std::max(*revision, event.revision());
    on_event(ProtoJson(event));
  }
  const absl::Status status = FromRpc(stream->Finish(), context, address_);
  ASSAY_RETURN_IF_ERROR(guard.Finish());
  return status;
}

absl::StatusOr<Json> Client::WatchRun(const std::string& name,
                                      const std::function<void(const Json& event)>& on_event,
                                      const StopCheck& stop) {
  uint64_t revision = 0;
  Backoff backoff(200, 3000);
  int64_t silent_since = -1;
  for (;;) {
    bool heard = false;
    absl::Status status = WatchOnce(name, &revision, &heard, on_event, stop);
    if (stop) ASSAY_RETURN_IF_ERROR(stop());
    // Where too many watch already, the run's state is asked for now and then.
    if (status.ok() || ReasonOf(status) == "TOO_MANY_WATCHERS") {
      absl::StatusOr<Json> run = GetRun(name);
      if (run.ok() && RunHasEnded(*run)) return run;
      status = run.status();
    }
    if (!status.ok() && !IsTransient(status)) return status;
    const int64_t now = Clock::Real()->MonotonicMillis();
    if (heard) backoff.Reset();
    if (heard || status.ok()) silent_since = -1;
    if (silent_since < 0) silent_since = now;
    if (!status.ok() && now - silent_since >= options_.reconnect_give_up_ms) {
      return UnavailableError(
          "WATCH_LOST",
          fmt::format("{} has not answered for {} s ({}); the run {} goes on when it "
                      "is back: run the same command again, or assay watch {}",
                      address_, (now - silent_since) / 1000, MessageOf(status), name, name));
    }
    Sleep(backoff.NextMs());
  }
}

}  // namespace assay
