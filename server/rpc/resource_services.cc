#include "server/rpc/resource_services.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "server/rpc/convert.h"
#include "server/rpc/gate.h"
#include "server/rpc/page.h"
#include "server/rpc/status.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/head.h"
#include "storage/format/model_manifest.h"
#include "storage/seal/log_proof.h"

namespace assay::rpc {
namespace {

constexpr size_t kManifestBytesMax = size_t{1} << 20;

// Rows of a map, oldest first.
template <class Row>
std::vector<Row> ByAge(const std::map<std::string, Row>& rows) {
  std::vector<Row> out;
  for (const auto& [id, row] : rows) out.push_back(row);
  std::stable_sort(out.begin(), out.end(),
                   [](const Row& a, const Row& b) { return a.create_ms < b.create_ms; });
  return out;
}

// The row `name` ("heads/x") in the map that `pick` gives; `reason` when there is none.
template <class Pick>
auto FindRow(const Engine& engine, const std::string& name, const char* collection,
             const char* reason, Pick pick) {
  return engine.Read([&](const State& s) {
    using Row = typename std::decay_t<decltype(pick(s))>::mapped_type;
    const auto id = IdOf(name, collection);
    if (!id.ok()) return absl::StatusOr<Row>(id.status());
    const auto it = pick(s).find(*id);
    if (it == pick(s).end())
      return absl::StatusOr<Row>(NotFoundError(reason, name + " does not exist"));
    return absl::StatusOr<Row>(it->second);
  });
}

const auto kSuites = [](const State& s) -> const auto& { return s.suites; };
const auto kModels = [](const State& s) -> const auto& { return s.models; };
const auto kHeads = [](const State& s) -> const auto& { return s.heads; };
const auto kReports = [](const State& s) -> const auto& { return s.reports; };
const auto kReceipts = [](const State& s) -> const auto& { return s.receipts; };

template <class Pick>
auto ListPage(const Engine& engine, const v1::PageRequest& page, const char* call, Pick pick) {
  return CutPage(engine.Read([&](const State& s) { return ByAge(pick(s)); }), page.page_size(),
                 page.page_token(), call);
}

absl::StatusOr<ModelRow> AddModel(Engine& engine, const std::string& principal,
                                  const std::string& text) {
  if (text.size() > kManifestBytesMax) {
    return InvalidError("MODEL_MANIFEST_INVALID", "a model manifest has at most 1 MiB");
  }
  ASSAY_ASSIGN_OR_RETURN(const Json json, ParseJson(text, "model manifest"));
  ASSAY_ASSIGN_OR_RETURN(const ModelManifest manifest, ParseModelManifest(json, "model manifest"));
  ModelRow row;
  row.id = manifest.Identity();
  ASSAY_ASSIGN_OR_RETURN(row.manifest_json, CanonicalJson(manifest.ToJson()));
  row.create_ms = engine.now().unix_ms;
  ASSAY_RETURN_IF_ERROR(engine.Execute({principal, AddResources{{row}}}).status);
  return engine.Read([&](const State& s) { return s.models.at(row.id); });
}

absl::StatusOr<HeadRow> AddHead(Engine& engine, const std::string& principal,
                                const v1::CreateHeadRequest& request) {
  ASSAY_ASSIGN_OR_RETURN(const std::string path, engine.blobs().LocalPath(request.file_sha256()));
  ASSAY_RETURN_IF_ERROR(engine.blobs().Verify(request.file_sha256()));
  ASSAY_ASSIGN_OR_RETURN(const HeadInfo info, InspectHead(path, request.tensor()));
  HeadRow row;
  row.id = info.content_sha256;
  row.file_sha256 = request.file_sha256();
  ASSAY_ASSIGN_OR_RETURN(row.file_bytes, engine.blobs().Size(request.file_sha256()));
  row.tensor = info.tensor;
  row.dtype = std::string(DTypeName(info.dtype));
  row.vocab = static_cast<int64_t>(info.vocab);
  row.hidden = static_cast<int64_t>(info.hidden);
  row.max_abs = info.max_abs;
  row.create_ms = engine.now().unix_ms;
  ASSAY_RETURN_IF_ERROR(engine.Execute({principal, AddResources{{row}}}).status);
  return engine.Read([&](const State& s) { return s.heads.at(row.id); });
}

absl::StatusOr<LogProof> LogProofOf(const Engine& engine, const v1::GetLogProofRequest& request) {
  if (static_cast<size_t>(request.old_sizes_size()) > kConsistencyMax) {
    return InvalidError("TOO_MANY_PROOFS",
                        "at most " + std::to_string(kConsistencyMax) + " old sizes in one call");
  }
  const std::vector<uint64_t> sizes(request.old_sizes().begin(), request.old_sizes().end());
  std::optional<uint64_t> leaf;
  if (!request.receipt().empty()) {
    ASSAY_ASSIGN_OR_RETURN(const ReceiptRow row, FindRow(engine, request.receipt(), "receipts",
                                                         "RECEIPT_UNKNOWN", kReceipts));
    leaf = row.leaf_index;
  }
  const std::string checkpoint = engine.Read([](const State& s) { return s.meta.checkpoint; });
  if (checkpoint.empty()) {
    return PreconditionError("LOG_EMPTY", "nothing was sealed yet, so there is no checkpoint");
  }
  return MakeLogProof(engine.catalogue(), checkpoint, leaf, sizes);
}

// Fills `out` from a row, or turns the error into a status.
template <class Row, class Message>
grpc::Status Answer(const absl::StatusOr<Row>& row, grpc::ServerContext* context,
                    const std::string& name, Message* out) {
  if (!row.ok()) return ToGrpc(row.status(), context, name);
  *out = ToProto(*row);
  return grpc::Status::OK;
}

}  // namespace

grpc::Status SuiteServiceImpl::CreateSuite(grpc::ServerContext* context,
                                           const v1::CreateSuiteRequest* request, v1::Suite* out) {
  Call call(gate_, context, "SuiteService/CreateSuite");
  if (!call.admitted()) return call.refusal();
  const auto row = engine_->AddSuite(call.principal(), request->manifest_sha256());
  if (!row.ok()) return call.Answer(row.status(), request->manifest_sha256());
  *out = ToProto(*row);
  return call.Answer(absl::OkStatus(), out->name());
}
grpc::Status SuiteServiceImpl::GetSuite(grpc::ServerContext* context,
                                        const v1::GetSuiteRequest* request, v1::Suite* out) {
  Call call(gate_, context, "SuiteService/GetSuite");
  if (!call.admitted()) return call.refusal();
  return Answer(FindRow(*engine_, request->name(), "suites", "SUITE_UNKNOWN", kSuites), context,
                request->name(), out);
}
grpc::Status SuiteServiceImpl::ListSuites(grpc::ServerContext* context,
                                          const v1::ListSuitesRequest* request,
                                          v1::ListSuitesResponse* out) {
  Call call(gate_, context, "SuiteService/ListSuites");
  if (!call.admitted()) return call.refusal();
  auto page = ListPage(*engine_, request->page(), "suites", kSuites);
  if (!page.ok()) return ToGrpc(page.status(), context);
  for (const SuiteRow& row : page->items) *out->add_suites() = ToProto(row);
  out->set_next_page_token(page->next);
  return grpc::Status::OK;
}

v1::Model ModelServiceImpl::Describe(const ModelRow& row) const {
  bool all = false;
  const auto json = ParseJson(row.manifest_json, "model manifest");
  if (json.ok()) {
    const auto manifest = ParseModelManifest(*json, "model manifest");
    all = manifest.ok() &&
          std::all_of(manifest->files.begin(), manifest->files.end(),
                      [&](const ModelFile& file) { return engine_->blobs().Has(file.sha256); });
  }
  return ToProto(row, all);
}
grpc::Status ModelServiceImpl::CreateModel(grpc::ServerContext* context,
                                           const v1::CreateModelRequest* request, v1::Model* out) {
  Call call(gate_, context, "ModelService/CreateModel");
  if (!call.admitted()) return call.refusal();
  const auto row = AddModel(*engine_, call.principal(), request->manifest_json());
  if (!row.ok()) return call.Answer(row.status(), "");
  *out = Describe(*row);
  return call.Answer(absl::OkStatus(), out->name());
}
grpc::Status ModelServiceImpl::GetModel(grpc::ServerContext* context,
                                        const v1::GetModelRequest* request, v1::Model* out) {
  Call call(gate_, context, "ModelService/GetModel");
  if (!call.admitted()) return call.refusal();
  const auto row = FindRow(*engine_, request->name(), "models", "MODEL_UNKNOWN", kModels);
  if (!row.ok()) return ToGrpc(row.status(), context, request->name());
  *out = Describe(*row);
  return grpc::Status::OK;
}
grpc::Status ModelServiceImpl::ListModels(grpc::ServerContext* context,
                                          const v1::ListModelsRequest* request,
                                          v1::ListModelsResponse* out) {
  Call call(gate_, context, "ModelService/ListModels");
  if (!call.admitted()) return call.refusal();
  auto page = ListPage(*engine_, request->page(), "models", kModels);
  if (!page.ok()) return ToGrpc(page.status(), context);
  FillPage(*page, "models", out, [&](const ModelRow& row) {
    auto* model = out->add_models();
    *model = Describe(row);
    return model;
  });
  return grpc::Status::OK;
}

grpc::Status HeadServiceImpl::CreateHead(grpc::ServerContext* context,
                                         const v1::CreateHeadRequest* request, v1::Head* out) {
  Call call(gate_, context, "HeadService/CreateHead");
  if (!call.admitted()) return call.refusal();
  const auto row = AddHead(*engine_, call.principal(), *request);
  if (!row.ok()) return call.Answer(row.status(), request->file_sha256());
  *out = ToProto(*row);
  return call.Answer(absl::OkStatus(), out->name());
}
grpc::Status HeadServiceImpl::GetHead(grpc::ServerContext* context,
                                      const v1::GetHeadRequest* request, v1::Head* out) {
  Call call(gate_, context, "HeadService/GetHead");
  if (!call.admitted()) return call.refusal();
  return Answer(FindRow(*engine_, request->name(), "heads", "HEAD_UNKNOWN", kHeads), context,
                request->name(), out);
}
grpc::Status HeadServiceImpl::ListHeads(grpc::ServerContext* context,
                                        const v1::ListHeadsRequest* request,
                                        v1::ListHeadsResponse* out) {
  Call call(gate_, context, "HeadService/ListHeads");
  if (!call.admitted()) return call.refusal();
  auto page = ListPage(*engine_, request->page(), "heads", kHeads);
  if (!page.ok()) return ToGrpc(page.status(), context);
  for (const HeadRow& row : page->items) *out->add_heads() = ToProto(row);
  out->set_next_page_token(page->next);
  return grpc::Status::OK;
}

grpc::Status ReportServiceImpl::GetReport(grpc::ServerContext* context,
                                          const v1::GetReportRequest* request, v1::Report* out) {
  Call call(gate_, context, "ReportService/GetReport");
  if (!call.admitted()) return call.refusal();
  return Answer(FindRow(*engine_, request->name(), "reports", "REPORT_UNKNOWN", kReports), context,
                request->name(), out);
}
grpc::Status ReportServiceImpl::ListReports(grpc::ServerContext* context,
                                            const v1::ListReportsRequest* request,
                                            v1::ListReportsResponse* out) {
  Call call(gate_, context, "ReportService/ListReports");
  if (!call.admitted()) return call.refusal();
  auto page = ListPage(*engine_, request->page(), "reports", kReports);
  if (!page.ok()) return ToGrpc(page.status(), context);
  FillPage(*page, "reports", out, [&](const ReportRow& row) {
    auto* report = out->add_reports();
    *report = ToProto(row);
    return report;
  });
  return grpc::Status::OK;
}

grpc::Status ReceiptServiceImpl::GetReceipt(grpc::ServerContext* context,
                                            const v1::GetReceiptRequest* request,
                                            v1::Receipt* out) {
  Call call(gate_, context, "ReceiptService/GetReceipt");
  if (!call.admitted()) return call.refusal();
  return Answer(FindRow(*engine_, request->name(), "receipts", "RECEIPT_UNKNOWN", kReceipts),
                context, request->name(), out);
}
grpc::Status ReceiptServiceImpl::ListReceipts(grpc::ServerContext* context,
                                              const v1::ListReceiptsRequest* request,
                                              v1::ListReceiptsResponse* out) {
  Call call(gate_, context, "ReceiptService/ListReceipts");
  if (!call.admitted()) return call.refusal();
  auto page = ListPage(*engine_, request->page(), "receipts", kReceipts);
  if (!page.ok()) return ToGrpc(page.status(), context);
  for (const ReceiptRow& row : page->items) *out->add_receipts() = ToProto(row);
  out->set_next_page_token(page->next);
  return grpc::Status::OK;
}
grpc::Status ReceiptServiceImpl::GetPublicKey(grpc::ServerContext* context,
                                              const v1::GetPublicKeyRequest*, v1::PublicKey* out) {
  Call call(gate_, context, "ReceiptService/GetPublicKey");
  if (!call.admitted()) return call.refusal();
  out->set_key_id(engine_->signer().key_id());
  out->set_pem(engine_->signer().public_key().pem());
  out->set_keys_json(engine_->keys().bytes());
  return grpc::Status::OK;
}

grpc::Status ReceiptServiceImpl::GetLogProof(grpc::ServerContext* context,
                                             const v1::GetLogProofRequest* request,
                                             v1::LogProof* out) {
  Call call(gate_, context, "ReceiptService/GetLogProof");
  if (!call.admitted()) return call.refusal();
  const auto proof = LogProofOf(*engine_, *request);
  if (!proof.ok()) return ToGrpc(proof.status(), context, request->receipt());
  out->set_checkpoint(proof->checkpoint);
  out->set_leaf_index(proof->leaf_index.value_or(0));
  for (const DigestBytes& hash : proof->inclusion_path) out->add_inclusion_path(HexOf(hash));
  for (const ConsistencyPath& path : proof->consistency) {
    auto* added = out->add_consistency();
    added->set_old_size(path.old_size);
    for (const DigestBytes& hash : path.path) added->add_path(HexOf(hash));
  }
  out->set_keys_json(engine_->keys().bytes());
  return grpc::Status::OK;
}

}  // namespace assay::rpc
