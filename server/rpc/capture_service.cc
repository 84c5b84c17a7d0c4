#include "server/rpc/capture_service.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "server/core/apply.h"
#include "server/rpc/convert.h"
#include "server/rpc/gate.h"
#include "server/rpc/page.h"
#include "server/rpc/status.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/head.h"
#include "storage/format/safetensors.h"

namespace assay::rpc {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kIdentityBytesMax = size_t{256} << 10;
constexpr uint64_t kFileBytesMax = uint64_t{4} << 30;

absl::StatusOr<std::string> CanonicalObject(const std::string& text, const char* what) {
  if (text.size() > kIdentityBytesMax)
    return InvalidError("INGEST_TOO_LARGE", std::string(what) + " is too long");
  ASSAY_ASSIGN_OR_RETURN(const Json json, ParseJson(text, what));
  if (!json.is_object())
    return InvalidError("INGEST_HEADER_INVALID", std::string(what) + " must be a JSON object");
  return CanonicalJson(json);
}

// One ingest call: the header, then files in suite order.
class Ingester {
 public:
  Ingester(Engine* engine, std::string principal)
      : engine_(engine), principal_(std::move(principal)) {}

  absl::Status Begin(const v1::IngestHeader& header) {
    ASSAY_ASSIGN_OR_RETURN(capture_.suite, IdOf(header.suite(), "suites"));
    ASSAY_ASSIGN_OR_RETURN(capture_.model, OptionalIdOf(header.model(), "models"));
    const bool suite_known =
        engine_->Read([&](const State& s) { return s.suites.count(capture_.suite) != 0; });
    if (!suite_known) return NotFoundError("SUITE_UNKNOWN", header.suite() + " was never created");
    const bool model_known = capture_.model.empty() || engine_->Read([&](const State& s) {
      return s.models.count(capture_.model) != 0;
    });
    if (!model_known) return NotFoundError("MODEL_UNKNOWN", header.model() + " was never created");
    ASSAY_ASSIGN_OR_RETURN(suite_, engine_->GetSuite(capture_.suite));
    if (header.suite_token_sha256() != suite_->suite_token_sha256) {
      return InvalidError("INGEST_TOKENS_DIFFER",
                          "the engine captured tokens with digest " + header.suite_token_sha256() +
                              ", the suite's is " + suite_->suite_token_sha256);
    }
    ASSAY_ASSIGN_OR_RETURN(selected_, SelectContexts(*suite_, header.filter()));
    capture_.cut_point =
        header.cut_point().empty() ? std::string(kDefaultCutPoint) : header.cut_point();
    if (header.manifest_json().empty()) {
      ASSAY_ASSIGN_OR_RETURN(capture_.identity_json,
                             CanonicalObject(header.stack_json(), "stack_json"));
      ASSAY_ASSIGN_OR_RETURN(
          capture_.declared_json,
          CanonicalObject(header.candidate_identity_json(), "candidate_identity_json"));
    } else {
      ASSAY_ASSIGN_OR_RETURN(capture_.manifest_json,
                             CanonicalObject(header.manifest_json(), "manifest_json"));
      capture_.identity_json = "{}";
      ASSAY_RETURN_IF_ERROR(KeepNamedContexts());
    }
    capture_.origin = "ingest";
    capture_.contexts_total = static_cast<int64_t>(suite_->contexts.size());
    capture_.create_ms = engine_->now().unix_ms;
    return absl::OkStatus();
  }

  absl::Status Take(const v1::IngestChunk& chunk) {
    if (next_ >= selected_.size() || chunk.index() != suite_->contexts[selected_[next_]].index) {
      return InvalidError("INGEST_ORDER", "context " + std::to_string(chunk.index()) +
                                              " is not the next one of the filter");
    }
    if (chunk.data().size() > kChunkBytes)
      return InvalidError("CHUNK_TOO_LARGE", "a chunk has at most 1 MiB");
    if (chunk.data().empty() && !chunk.last())
      return InvalidError("CHUNK_EMPTY", "a chunk holds data or is the last of its file");
    if (!open_) {
      if (chunk.size() > kFileBytesMax)
        return InvalidError("INGEST_TOO_LARGE", "a file has at most 4 GiB");
      sha256_ = chunk.sha256();
      size_ = chunk.size();
      open_ = true;
      if (!engine_->blobs().Has(sha256_)) {
        ASSAY_ASSIGN_OR_RETURN(writer_, engine_->blobs().Write(sha256_, size_));
        skip_ = writer_->offset();
      }
      at_ = 0;
    }
    if (chunk.offset() != at_) {
      return InvalidError("INGEST_ORDER", "a chunk starts at " + std::to_string(chunk.offset()) +
                                              ", not at " + std::to_string(at_));
    }
    if (writer_) {
      // What an earlier, cut stream left is there already and was hashed again.
      const uint64_t known = skip_ > at_ ? std::min<uint64_t>(skip_ - at_, chunk.data().size()) : 0;
      ASSAY_RETURN_IF_ERROR(
          writer_->Append({reinterpret_cast<const uint8_t*>(chunk.data().data()) + known,
                           chunk.data().size() - known}));
    }
    at_ += chunk.data().size();
    return chunk.last() ? EndFile() : absl::OkStatus();
  }

  absl::StatusOr<std::string> Finish() {
    if (open_ || next_ != selected_.size() || next_ == 0) {
      return InvalidError("INGEST_INCOMPLETE",
                          std::to_string(next_) + " of " + std::to_string(selected_.size()) +
                              " contexts were delivered; send the rest in a new call");
    }
    ASSAY_RETURN_IF_ERROR(CheckManifest());
    // Identity of what was delivered: who made it, of what, with which stack, and every file.
    Json who = Json::object();
    who["declared"] = capture_.declared_json;
    who["model"] = capture_.model;
    if (!capture_.manifest_json.empty()) who["manifest"] = capture_.manifest_json;
    Json digests = Json::array();
    for (const CaptureFileRow& file : files_) digests.push_back(file.sha256);
    who["files"] = std::move(digests);
    ASSAY_ASSIGN_OR_RETURN(const std::string identity, CanonicalJson(who));
    capture_.id = CaptureId(identity, capture_.suite, capture_.cut_point, capture_.identity_json);
    AddResources command;
    command.rows.emplace_back(capture_);
    for (CaptureFileRow& file : files_) {
      file.capture = capture_.id;
      command.rows.emplace_back(file);
    }
    ASSAY_RETURN_IF_ERROR(engine_->Execute({principal_, std::move(command)}).status);
    return capture_.id;
  }

 private:
  // The published manifest that the client names is here, and says of each delivered context what
  // was delivered: so a receipt may name it.
  absl::Status CheckManifest() const {
    if (capture_.manifest_json.empty()) return absl::OkStatus();
    ASSAY_ASSIGN_OR_RETURN(const Json said, ParseJson(capture_.manifest_json, "manifest_json"));
    const auto named = said.find("manifest_sha256");
    if (named == said.end()) return absl::OkStatus();
    if (!named->is_string() || !IsSha256Hex(named->get<std::string>())) {
      return InvalidError("INGEST_HEADER_INVALID",
                          "manifest_json: \"manifest_sha256\" must be 64 lower-case hex digits");
    }
    const std::string where = "blobs/" + named->get<std::string>();
    ASSAY_ASSIGN_OR_RETURN(
        const std::string bytes,
        GetBlob(engine_->blobs(), named->get<std::string>(), kCaptureManifestBytesMax));
    ASSAY_ASSIGN_OR_RETURN(const Json json, ParseJson(bytes, where));
    ASSAY_ASSIGN_OR_RETURN(const CaptureManifest manifest, ParseCaptureManifest(json, where));
    std::map<int64_t, std::string> recorded;
    for (const CaptureRecord& record : manifest.records) recorded[record.index] = record.sha256;
    for (const CaptureFileRow& file : files_) {
      const auto it = recorded.find(file.index);
      if (it != recorded.end() && it->second == file.sha256) continue;
      return InvalidError(
          "INGEST_MANIFEST_DIFFERS",
          where + ": the manifest records " + (it == recorded.end() ? "nothing" : "another file") +
              " for context " + std::to_string(file.index) + ", which was delivered with digest " +
              file.sha256 + "; send the files of that manifest, or leave manifest_sha256 out");
    }
    return absl::OkStatus();
  }

  // A capture of some contexts of its filter says which: no others are waited for.
  absl::Status KeepNamedContexts() {
    ASSAY_ASSIGN_OR_RETURN(const Json manifest, ParseJson(capture_.manifest_json, "manifest_json"));
    const auto named = manifest.find("contexts");
    if (named == manifest.end()) return absl::OkStatus();
    std::set<int64_t> indices;
    for (const Json& index : *named) {
      if (index.is_number_integer()) indices.insert(index.get<int64_t>());
    }
    std::erase_if(selected_,
                  [&](size_t at) { return indices.count(suite_->contexts[at].index) == 0; });
    if (named->is_array() && selected_.size() == named->size()) return absl::OkStatus();
    return InvalidError("INGEST_HEADER_INVALID",
                        "manifest_json: \"contexts\" must be an array of indices, each once, of "
                        "contexts that the filter selects");
  }

  absl::Status EndFile() {
    if (writer_) ASSAY_RETURN_IF_ERROR(writer_->Commit());
    writer_.reset();
    open_ = false;
    skip_ = 0;
    ASSAY_ASSIGN_OR_RETURN(const std::string path, engine_->blobs().LocalPath(sha256_));
    ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
    ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file->Find(kHiddenTensorName));
    const auto rows = static_cast<uint64_t>(suite_->context_length) - 1;
    const uint64_t width = tensor.shape.size() == 2 ? tensor.shape[1] : 0;
    ASSAY_RETURN_IF_ERROR(CheckHiddenFile(*file, rows, width));
    if (!files_.empty() && files_.front().width != static_cast<int64_t>(width)) {
      return InvalidError("SHAPE_MISMATCH",
                          "context " + std::to_string(suite_->contexts[selected_[next_]].index) +
                              " has another hidden size than the first one");
    }
    CaptureFileRow row;
    row.index = suite_->contexts[selected_[next_]].index;
    row.sha256 = sha256_;
    ASSAY_ASSIGN_OR_RETURN(row.bytes, engine_->blobs().Size(sha256_));
    row.rows = static_cast<int64_t>(rows);
    row.width = static_cast<int64_t>(width);
    row.max_abs = MaxAbs(tensor);
    files_.push_back(std::move(row));
    ++next_;
    return absl::OkStatus();
  }

  Engine* engine_;
  const std::string principal_;
  CaptureRow capture_;
  std::shared_ptr<const Suite> suite_;
  std::vector<size_t> selected_;
  std::vector<CaptureFileRow> files_;
  size_t next_ = 0;
  bool open_ = false;
  std::string sha256_;
  uint64_t size_ = 0, at_ = 0, skip_ = 0;
  std::unique_ptr<BlobWriter> writer_;
};

}  // namespace

absl::StatusOr<v1::Capture> CaptureServiceImpl::DoIngest(const std::string& principal,
                                                         UploadStream<v1::IngestRequest>* stream) {
  using Next = UploadStream<v1::IngestRequest>::Next;
  const auto next = [&](v1::IngestRequest* request) {
    const std::chrono::milliseconds idle(gate_->limits().upload_idle_ms);
    return stream->Take(request, UploadClock::now() + idle);
  };
  const auto stalled = [&] {
    return UnavailableError(
        "UPLOAD_STALLED", "no message came for " + std::to_string(gate_->limits().upload_idle_ms) +
                              " ms; send the capture again, files that are here are skipped");
  };
  Ingester ingester(engine_, principal);
  v1::IngestRequest request;
  Next got = next(&request);
  if (got == Next::kLate) return stalled();
  if (got == Next::kEnd || !request.has_header()) {
    return InvalidError("INGEST_HEADER_MISSING", "the first message must be the header");
  }
  ASSAY_RETURN_IF_ERROR(ingester.Begin(request.header()));
  while ((got = next(&request)) == Next::kMessage) {
    if (!request.has_chunk()) return InvalidError("INGEST_ORDER", "only chunks follow the header");
    ASSAY_RETURN_IF_ERROR(ingester.Take(request.chunk()));
  }
  if (got == Next::kLate) return stalled();
  ASSAY_ASSIGN_OR_RETURN(const std::string id, ingester.Finish());
  return engine_->Read([&](const State& s) { return ToProto(s, s.captures.at(id)); });
}

grpc::ServerReadReactor<v1::IngestRequest>* CaptureServiceImpl::Ingest(
    grpc::CallbackServerContext* context, v1::Capture* out) {
  return ServeUpload<v1::IngestRequest>(
      gate_, &threads_, context, "CaptureService/Ingest",
      [this, out](Call& call, UploadStream<v1::IngestRequest>& stream) {
        auto capture = DoIngest(call.principal(), &stream);
        if (!capture.ok()) return call.Answer(capture.status(), "");
        *out = *std::move(capture);
        return call.Answer(absl::OkStatus(), out->name());
      });
}

grpc::Status CaptureServiceImpl::GetCapture(grpc::ServerContext* context,
                                            const v1::GetCaptureRequest* request,
                                            v1::Capture* out) {
  Call call(gate_, context, "CaptureService/GetCapture");
  if (!call.admitted()) return call.refusal();
  auto capture = engine_->Read([&](const State& s) -> absl::StatusOr<v1::Capture> {
    ASSAY_ASSIGN_OR_RETURN(const std::string id, IdOf(request->name(), "captures"));
    const auto it = s.captures.find(id);
    if (it == s.captures.end())
      return NotFoundError("CAPTURE_UNKNOWN", request->name() + " does not exist");
    return ToProto(s, it->second);
  });
  if (!capture.ok()) return ToGrpc(capture.status(), context, request->name());
  *out = *std::move(capture);
  return grpc::Status::OK;
}

grpc::Status CaptureServiceImpl::ListCaptures(grpc::ServerContext* context,
                                              const v1::ListCapturesRequest* request,
                                              v1::ListCapturesResponse* out) {
  Call call(gate_, context, "CaptureService/ListCaptures");
  if (!call.admitted()) return call.refusal();
  auto ids = engine_->Read([](const State& s) {
    // Oldest first, so that a capture that comes between two pages comes last.
    std::vector<std::pair<int64_t, std::string>> by_age;
    for (const auto& [id, row] : s.captures) by_age.emplace_back(row.create_ms, id);
    std::sort(by_age.begin(), by_age.end());
    std::vector<std::string> list;
    for (auto& [time, id] : by_age) list.push_back(std::move(id));
    return list;
  });
  auto page = CutPage(std::move(ids), request->page().page_size(), request->page().page_token(),
                      "captures");
  if (!page.ok()) return ToGrpc(page.status(), context);
  FillPage(*page, "captures", out, [&](const std::string& id) {
    auto* capture = out->add_captures();
    *capture = engine_->Read([&](const State& s) { return ToProto(s, s.captures.at(id)); });
    return capture;
  });
  return grpc::Status::OK;
}

grpc::Status CaptureServiceImpl::ListCaptureFiles(grpc::ServerContext* context,
                                                  const v1::ListCaptureFilesRequest* request,
                                                  v1::ListCaptureFilesResponse* out) {
  Call call(gate_, context, "CaptureService/ListCaptureFiles");
  if (!call.admitted()) return call.refusal();
  auto files = engine_->Read([&](const State& s) -> absl::StatusOr<std::vector<CaptureFileRow>> {
    ASSAY_ASSIGN_OR_RETURN(const std::string id, IdOf(request->name(), "captures"));
    if (s.captures.count(id) == 0)
      return NotFoundError("CAPTURE_UNKNOWN", request->name() + " does not exist");
    std::vector<CaptureFileRow> list;
    if (const auto it = s.files.find(id); it != s.files.end()) {
      for (const auto& [index, file] : it->second[0]) list.push_back(file);
    }
    return list;
  });
  if (!files.ok()) return ToGrpc(files.status(), context, request->name());
  auto page = CutPage(*std::move(files), request->page().page_size(), request->page().page_token(),
                      "files");
  if (!page.ok()) return ToGrpc(page.status(), context);
  for (const CaptureFileRow& row : page->items) {
    auto* file = out->add_files();
    file->set_index(row.index);
    file->mutable_file()->set_sha256(row.sha256);
    file->mutable_file()->set_size(row.bytes);
    file->set_rows(row.rows);
    file->set_width(row.width);
  }
  out->set_next_page_token(page->next);
  return grpc::Status::OK;
}

absl::Status CaptureServiceImpl::DoPrune(const std::string& principal,
                                         const v1::PruneCapturesRequest& request,
                                         v1::PruneCapturesResponse* out) {
  std::vector<std::string> names;
  for (const std::string& name : request.names()) {
    ASSAY_ASSIGN_OR_RETURN(std::string id, IdOf(name, "captures"));
    names.push_back(std::move(id));
  }
  std::vector<UnusedCapture> unused;
  if (request.apply()) {
    ASSAY_ASSIGN_OR_RETURN(unused, engine_->DropUnused(principal, names, request.sealed()));
  } else {
    unused =
        engine_->Read([&](const State& s) { return UnusedCaptures(s, names, request.sealed()); });
  }
  for (const UnusedCapture& capture : unused) {
    auto* row = out->add_captures();
    row->set_name("captures/" + capture.id);
    const std::string model =
        engine_->Read([&](const State& s) { return s.captures.at(capture.id).model; });
    if (!model.empty()) row->set_model("models/" + model);
    row->set_files(capture.files);
    row->set_bytes(capture.bytes);
  }
  return absl::OkStatus();
}

grpc::Status CaptureServiceImpl::PruneCaptures(grpc::ServerContext* context,
                                               const v1::PruneCapturesRequest* request,
                                               v1::PruneCapturesResponse* out) {
  Call call(gate_, context, "CaptureService/PruneCaptures");
  if (!call.admitted()) return call.refusal();
  const absl::Status status = DoPrune(call.principal(), *request, out);
  if (!request->apply()) return ToGrpc(status, context);
  std::string dropped;
  for (const auto& capture : out->captures())
    dropped += (dropped.empty() ? "" : " ") + capture.name();
  return call.Answer(status, dropped);
}

}  // namespace assay::rpc
