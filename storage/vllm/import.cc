#include "storage/vllm/import.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "storage/base/build_info.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/utf8.h"
#include "storage/format/model_manifest.h"
#include "storage/vllm/final_norm.h"

namespace assay {
namespace {

constexpr size_t kIdentityBytesMax = 256 << 10;
constexpr size_t kNamesShown = 10;
constexpr uint64_t kCheckpointContexts = 16;  // what a crash costs

std::string ListText(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size() && i < kNamesShown; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  }
  return text + (numbers.size() > kNamesShown ? ", ..." : "");
}

std::string Canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  return error ? path : resolved.string();
}

// Of a local path only its last part: captures carry no path of the machine they were made on.
std::string PortableName(const std::string& model) {
  return FileExists(model) || IsDirectory(model) ? BaseName(Canonical(model)) : model;
}

// REPO/snapshots/REVISION of a Hugging Face cache says which revision it is.
void AddRevision(const std::string& folder, Json* identity) {
  constexpr size_t kRevisionDigits = 40;
  const std::string path = Canonical(folder), name = BaseName(path);
  const bool hex = name.size() == kRevisionDigits &&
                   name.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex || BaseName(DirName(path)) != "snapshots") return;
  (*identity)["model_revision"] = name;
  (*identity)["model_revision_source"] = "hub_snapshot";
}

class Import {
 public:
  Import(const VllmImportRequest& request, const VllmImportHooks& hooks)
      : request_(request), hooks_(hooks), layer_ids_(request.layer_ids) {
    std::sort(layer_ids_.begin(), layer_ids_.end());  // vLLM collects them as the pass meets them
  }
  absl::StatusOr<VllmImportResult> Run(DigestCache* cache);

 private:
  absl::Status CheckRequest() const;
  absl::Status Describe(DigestCache* cache);
  absl::StatusOr<uint64_t> LayerOf(const VllmExtractedFile& file) const;
  absl::Status NoteUnused(const VllmExtractedFile& file);
  absl::Status TakeFile(const std::string& path, std::optional<VllmAxes>* axes);
  absl::Status AddContexts(const std::vector<int64_t>& indices, const std::vector<float>& rows,
                           uint64_t width);
  absl::Status Finish();

  const VllmImportRequest& request_;
  const VllmImportHooks& hooks_;
  std::vector<int64_t> layer_ids_;
  Suite suite_;
  std::vector<std::string> files_;
  std::optional<FinalNorm> norm_;
  CaptureWriterInfo info_;
  std::unique_ptr<VllmOutFolder> out_;
  std::map<std::vector<int64_t>, std::vector<int64_t>> contexts_;  // tokens read -> indices
  std::set<int64_t> wanted_, done_;                                // of this run
  VllmImportResult result_;
};

// What was typed fits together.
absl::Status Import::CheckRequest() const {
  if (request_.before_norm && request_.final_norm.empty()) {
    return InvalidError("FINAL_NORM_NEEDED",
                        "states from before the final norm cannot be put through a head; give "
                        "--final-norm MODEL, the model's Hugging Face folder");
  }
  std::vector<std::string> texts = {request_.model, request_.engine_version};
  for (const auto& [key, value] : request_.stack) texts.insert(texts.end(), {key, value});
  for (const std::string& text : texts) {
    if (!IsUtf8(text)) {
      return InvalidError("BAD_USAGE", "\"" + ScrubUtf8(text) + "\" is not UTF-8 text");
    }
  }
  if (!request_.before_norm && !request_.final_norm.empty()) {
    return InvalidError("FINAL_NORM_NEEDED",
                        "--final-norm would norm the states twice; leave it out, or correct --cut");
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Import::LayerOf(const VllmExtractedFile& file) const {
  const std::string holds = file.path() + ": holds " + std::to_string(file.layers()) + " layers";
  if (layer_ids_.empty()) {
    if (file.layers() == 1) return 0;
    return InvalidError("LAYER_NEEDED",
                        holds +
                            "; give --layer-ids as in eagle_aux_hidden_state_layer_ids, so that "
                            "the right one is taken");
  }
  if (layer_ids_.size() != file.layers()) {
    return InvalidError("SHAPE_MISMATCH",
                        holds + ", --layer-ids has " + std::to_string(layer_ids_.size()));
  }
  if (!norm_) {
    if (file.layers() == 1) return 0;
    return InvalidError("LAYER_NEEDED", holds + "; which is after the final norm?");
  }
  const auto found = std::find(layer_ids_.begin(), layer_ids_.end(), norm_->layers);
  if (found != layer_ids_.end()) return static_cast<uint64_t>(found - layer_ids_.begin());
  const std::string last = std::to_string(norm_->layers);
  return InvalidError("LAYER_NEEDED", "the final norm takes the states after layer " + last +
                                          ", which is not among --layer-ids " +
                                          ListText(layer_ids_) + "; extract again with " + last +
                                          " in eagle_aux_hidden_state_layer_ids");
}

// Who the model is and what decides the bits, as the Python package's writer says it.
absl::Status Import::Describe(DigestCache* cache) {
  ASSAY_ASSIGN_OR_RETURN(const VllmExtractedFile first,
                         VllmExtractedFile::Open(files_[0], request_.axes));
  ASSAY_ASSIGN_OR_RETURN(const uint64_t layer, LayerOf(first));
  info_.filter = request_.filter.empty() ? "all" : request_.filter;
  const std::string& made_of = request_.final_norm.empty() ? request_.folder : request_.final_norm;
  info_.model_name = PortableName(request_.model.empty() ? made_of : request_.model);
  const Json named = {{"engine", "vllm"}, {"engine_version", request_.engine_version}};
  Json kernels = named;
  kernels["source"] = "vllm-hidden-states";
  kernels["source_dtype"] = std::string(first.dtype());
  kernels["source_axes"] = std::string(VllmAxesName(first.axes()));
  kernels["layer"] = layer_ids_.empty() ? Json(nullptr) : Json(layer_ids_[layer]);
  kernels["final_norm"] = norm_ ? norm_->Describe() : Json("applied by the engine");
  kernels["hidden_dtype"] = std::string(HiddenStoreName(request_.store));
  kernels["hidden_rounding"] = request_.store == HiddenStore::kBf16 ? "bf16-rne" : "none";
  info_.stack = named;
  info_.stack["kernels"] = kernels;
  info_.stack["writer"] = "assay " + BuildId();
  for (const auto& [key, value] : request_.stack) info_.stack[key] = value;
  if (info_.stack.dump().size() > kIdentityBytesMax) {
    return InvalidError("BAD_USAGE", "--stack takes " + std::to_string(info_.stack.dump().size()) +
                                         " bytes as JSON, " + std::to_string(kIdentityBytesMax) +
                                         " is the most");
  }
  info_.runtime = {{"fp32", request_.store == HiddenStore::kF32},
                   {"engine", "vllm"},
                   {"kernels", std::move(kernels)}};
  if (request_.final_norm.empty()) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const ModelManifest model,
                         MakeModelManifest(request_.final_norm, "", cache));
  Json shards = Json::object();
  for (const ModelFile& file : model.files) {
    if (file.path == "config.json") info_.candidate_identity["config_sha256"] = file.sha256;
    if (file.path == "model.safetensors.index.json") {
      info_.candidate_identity["index_sha256"] = file.sha256;
    }
    if (file.path.ends_with(".safetensors")) shards[file.path] = file.sha256;
  }
  info_.candidate_identity["shard_sha256"] = std::move(shards);
  AddRevision(request_.final_norm, &info_.candidate_identity);
  return absl::OkStatus();
}

absl::Status Import::NoteUnused(const VllmExtractedFile& file) {
  const auto rows = static_cast<size_t>(suite_.context_length) - 1;
  const std::vector<int64_t>& tokens = file.tokens();
  if (tokens.size() > rows) {
    const std::vector<int64_t> shifted(tokens.begin() + 1,
                                       tokens.begin() + 1 + static_cast<ptrdiff_t>(rows));
    if (contexts_.count(shifted) != 0) {
      return InvalidError("TOKENS_SHIFTED",
                          file.path() + ": its tokens are those of a context with " +
                              std::to_string(tokens[0]) +
                              " before them, so a beginning-of-sequence token was added; send "
                              "prompt_token_ids, not text");
    }
  }
  result_.unused.push_back(file.path());
  return absl::OkStatus();
}

absl::Status CheckWritten(const std::string& path, const std::vector<float>& rows, uint64_t width) {
  std::vector<uint64_t> empty;
  for (uint64_t row = 0; row * width < rows.size(); ++row) {
    const auto begin = rows.begin() + static_cast<ptrdiff_t>(row * width);
    const bool zero = std::all_of(begin, begin + static_cast<ptrdiff_t>(width),
                                  [](float value) { return value == 0; });
    if (zero) empty.push_back(row);
  }
  if (empty.empty()) return absl::OkStatus();
  return InvalidError(
      "HIDDEN_NOT_WRITTEN",
      path + ": position " + std::to_string(empty[0]) + " (" + std::to_string(empty.size()) +
          " in all) is all zeros: vLLM did not write it; switch chunked prefill and "
          "prefix caching off and extract again");
}

absl::Status Import::AddContexts(const std::vector<int64_t>& indices,
                                 const std::vector<float>& rows, uint64_t width) {
  for (const int64_t index : indices) {
    if (wanted_.count(index) == 0) continue;
    // A second file of the same tokens must have the same bits.
    ASSAY_RETURN_IF_ERROR(out_->Add(index, rows, width));
    if (!done_.insert(index).second) continue;
    if (hooks_.progress) hooks_.progress(result_.kept + done_.size(), out_->wanted().size());
    if (done_.size() % kCheckpointContexts == 0) {
      ASSAY_RETURN_IF_ERROR(out_->WriteManifest().status());
    }
  }
  return absl::OkStatus();
}

absl::Status Import::TakeFile(const std::string& path, std::optional<VllmAxes>* axes) {
  ASSAY_RETURN_IF_ERROR(CheckVllmFileFinished(path));
  ASSAY_ASSIGN_OR_RETURN(const VllmExtractedFile file,
                         VllmExtractedFile::Open(path, request_.axes));
  if (*axes && **axes != file.axes()) {
    return InvalidError("SHAPE_MISMATCH", path + ": " + std::string(VllmAxesName(file.axes())) +
                                              ", the files before it are " +
                                              std::string(VllmAxesName(**axes)) +
                                              "; one of them is misread, give --axes");
  }
  *axes = file.axes();
  const auto count = static_cast<size_t>(suite_.context_length) - 1;
  std::vector<int64_t> read = file.tokens();
  read.resize(std::min(read.size(), count));
  const auto served = contexts_.find(read);
  if (served == contexts_.end()) return NoteUnused(file);
  ASSAY_ASSIGN_OR_RETURN(const uint64_t layer, LayerOf(file));
  std::vector<float> rows = file.Rows(layer, count);
  ASSAY_RETURN_IF_ERROR(CheckWritten(path, rows, file.width()));
  if (norm_) ASSAY_RETURN_IF_ERROR(Annotate(norm_->Apply(rows, file.width()), path));
  return Annotate(AddContexts(served->second, rows, file.width()), path);
}

absl::Status Import::Finish() {
  ASSAY_ASSIGN_OR_RETURN(const bool complete, out_->WriteManifest());
  result_.imported = done_.size();
  if (complete) return absl::OkStatus();
  std::vector<int64_t> missing;
  for (const int64_t index : out_->wanted()) {
    if (!out_->Has(index)) missing.push_back(index);
  }
  return PreconditionError("CAPTURE_INCOMPLETE",
                           std::to_string(missing.size()) + " of " +
                               std::to_string(out_->wanted().size()) + " contexts are missing (" +
                               ListText(missing) + "): no file in " + request_.folder +
                               " has their tokens; have vLLM serve them and run the same command "
                               "again, what is there is kept");
}

absl::StatusOr<VllmImportResult> Import::Run(DigestCache* cache) {
  ASSAY_RETURN_IF_ERROR(CheckRequest());
  ASSAY_ASSIGN_OR_RETURN(files_, ListVllmFiles(request_.folder));
  ASSAY_ASSIGN_OR_RETURN(suite_, ReadSuite(request_.suite_dir));
  if (request_.before_norm) {
    ASSAY_ASSIGN_OR_RETURN(norm_, LoadFinalNorm(request_.final_norm));
  }
  ASSAY_RETURN_IF_ERROR(Describe(cache));
  // States depend on the tokens read, so a file serves every context that begins with its tokens.
  for (const SuiteContext& context : suite_.contexts) {
    contexts_[{context.tokens.begin(), context.tokens.end() - 1}].push_back(context.index);
  }
  ASSAY_ASSIGN_OR_RETURN(out_, VllmOutFolder::Open(request_.out, suite_, info_, request_.store));
  for (const int64_t index : out_->wanted()) {
    if (!out_->Has(index)) wanted_.insert(index);
  }
  result_.kept = out_->wanted().size() - wanted_.size();
  std::optional<VllmAxes> axes = request_.axes;
  absl::Status taken = absl::OkStatus();
  for (const std::string& path : files_) {
    if (hooks_.interrupted && hooks_.interrupted()) {
      taken = Error(absl::StatusCode::kCancelled, "CANCELLED",
                    "stopped; the same command continues, what is in --out is kept");
    } else {
      taken = TakeFile(path, &axes);
    }
    if (!taken.ok()) break;
  }
  if (!taken.ok()) {
    ASSAY_RETURN_IF_ERROR(out_->WriteManifest().status());  // what was stored is remembered
    return taken;
  }
  ASSAY_RETURN_IF_ERROR(Finish());
  result_.manifest = out_->manifest();
  ASSAY_ASSIGN_OR_RETURN(const CaptureManifest written,
                         ParseCaptureManifest(result_.manifest, request_.out));
  result_.content_sha256 = written.ContentSha256();
  return std::move(result_);
}

}  // namespace

absl::StatusOr<VllmImportResult> ImportVllm(const VllmImportRequest& request, DigestCache* cache,
                                            const VllmImportHooks& hooks) {
  return Import(request, hooks).Run(cache);
}

}  // namespace assay
