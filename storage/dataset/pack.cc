#include "storage/dataset/pack.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/finding.h"
#include "storage/dataset/logits.h"
#include "storage/dataset/pack_documents.h"
#include "storage/dataset/verify.h"
#include "storage/format/capture.h"
#include "storage/format/head.h"
#include "storage/format/safetensors.h"

namespace assay {
namespace {

absl::Status BadDescription(const std::string& why) {
  return InvalidError("DESCRIPTION_INVALID", "the dataset's description: " + why);
}

std::string Padded(int64_t index) {
  char text[32];
  std::snprintf(text, sizeof text, "%04lld", static_cast<long long>(index));
  return text;
}

// NumPy version 1.0: `count` bytes of one.
std::string MaskNpy(size_t count) {
  std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
  const size_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  header.resize(total - 11, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  return out + header + std::string(count, '\1');
}

// One tensor, its header compact with sorted keys and no padding, as the publisher's tool writes
// it.
std::string TensorFile(const std::string& name, std::string_view dtype, uint64_t rows,
                       uint64_t width, const Json& metadata, std::string_view payload) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  header[name] = {
      {"data_offsets", {0, payload.size()}}, {"dtype", dtype}, {"shape", {rows, width}}};
  const std::string text = PythonCanonJson(header);
  const uint64_t size = text.size();
  std::string out(8, '\0');
  std::copy_n(reinterpret_cast<const char*>(&size), 8, out.begin());
  return out + text + std::string(payload);
}

std::string_view TextOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Packer {
 public:
  Packer(DatasetPackRequest request, std::string root)
      : request_(std::move(request)), root_(std::move(root)) {}

  absl::Status Run() {
    ASSAY_RETURN_IF_ERROR(CheckRequest());
    ASSAY_RETURN_IF_ERROR(WriteHead());
    ASSAY_RETURN_IF_ERROR(WritePanelFiles());
    ASSAY_RETURN_IF_ERROR(WriteTensors());
    const std::string readme =
        DatasetString(DatasetMember(request_.description, {"readme"})).value_or("");
    ASSAY_RETURN_IF_ERROR(Put("README.md", !readme.empty() ? readme : DefaultReadme()));
    ASSAY_RETURN_IF_ERROR(WriteDocuments());
    return Check();
  }

 private:
  absl::Status CheckRequest() {
    const Json& description = request_.description;
    if (!description.is_object()) return BadDescription("must be an object");
    for (const auto& [key, value] : description.items()) {
      constexpr const char* kKnown[] = {
          "created_utc", "run_name", "readme",      "metadata", "dataset",          "weights",
          "scope",       "panel",    "capture",     "head",     "runtime",          "determinism",
          "coverage",    "interop",  "disclosures", "seal",     "upstream_receipts"};
      if (std::none_of(std::begin(kKnown), std::end(kKnown),
                       [name = std::string_view(key)](const char* known) { return name == known; }))
        return BadDescription("\"" + key.substr(0, 80) + "\" is not known");
    }
    if (!DatasetMember(description, {"dataset", "id"}).is_string())
      return BadDescription("\"dataset\": {\"id\": ...} is required");
    if (request_.hidden.size() != request_.suite.contexts.size())
      return InternalError("DESCRIPTION_INVALID", "a file, or none, is needed for each context");
    if (!description.contains("created_utc")) {
      char text[32];
      const std::time_t now = std::time(nullptr);
      std::tm utc{};
      gmtime_r(&now, &utc);
      std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
      request_.description["created_utc"] = text;
    }
    return absl::OkStatus();
  }

  std::string DefaultReadme() const {
    const std::string id = DatasetText(DatasetMember(request_.description, {"dataset", "id"}));
    return "---\nx_fidelity:\n  role: fidelity-dataset\n---\n" + id +
           ": captured distributions over a fixed panel of tokens. fidelity-dataset.json describes "
           "and seals it.\n";
  }

  absl::Status Put(const std::string& name, std::string_view bytes) {
    const std::string path = JoinPath(root_, name);
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(path)));
    if (name != "fidelity-dataset.json" && name != "checksums.txt")
      sums_.emplace_back(name, Sha256Hex(bytes));
    return WriteFile(path, bytes);
  }

  absl::StatusOr<std::string> PutJson(const std::string& name, const Json& document) {
    const std::string bytes = DatasetPrettyJson(document);
    ASSAY_RETURN_IF_ERROR(Put(name, bytes));
    return Sha256Hex(bytes);
  }

  absl::Status WriteHead() {
    ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(request_.head_file));
    ASSAY_ASSIGN_OR_RETURN(const TensorView view, FindHeadTensor(*file, request_.head_tensor));
    PackedHead& head = parts_.head;
    head.tensor = "lm_head.weight";
    head.dtype = std::string(DTypeName(view.dtype));
    head.vocab = view.shape[0];
    head.hidden = view.shape[1];
    head.content_sha256 = Sha256Hex(TextOf(view.bytes));
    const std::string bytes = TensorFile(head.tensor, head.dtype, head.vocab, head.hidden,
                                         Json::object(), TextOf(view.bytes));
    head.file_sha256 = Sha256Hex(bytes);
    return Put("head/weight.safetensors", bytes);
  }

  absl::Status WritePanelFiles() {
    for (const SuiteContext& context : request_.suite.contexts) {
      const std::string number = Padded(context.index);
      ASSAY_RETURN_IF_ERROR(
          Put("panel/tokens/context-" + number + ".json", CompactTokens(context.tokens)));
      if (!request_.masks) continue;
      const std::string mask = MaskNpy(context.tokens.size());
      parts_.masks.push_back(Sha256Hex(mask));
      ASSAY_RETURN_IF_ERROR(Put("panel/masks/context-" + number + ".npy", mask));
    }
    return absl::OkStatus();
  }

  // Metadata of a tensor file: that of the description, its window_id filled in.
  Json Metadata(size_t position) const {
    Json metadata = DatasetMember(request_.description, {"metadata"});
    if (!metadata.is_object()) return Json::object();
    if (metadata.contains("window_id")) {
      const Json& rows = DatasetMember(request_.description, {"panel", "records"});
      const Json& given = rows.is_array() && position < rows.size()
                              ? DatasetMember(rows[position], {"window_id"})
                              : Json();
      metadata["window_id"] =
          given.is_string() ? given
                            : Json("context-" + Padded(request_.suite.contexts[position].index));
    }
    return metadata;
  }

  absl::Status PutTensor(size_t position, const char* name, std::string_view dtype, uint64_t rows,
                         uint64_t width, std::string_view payload) {
    const bool hidden = request_.form == DatasetForm::kHidden;
    PackedRecord record;
    record.position = position;
    record.file = (hidden ? "hidden_" : "logits_") +
                  Padded(request_.suite.contexts[position].index) + ".safetensors";
    record.dtype = std::string(dtype);
    record.rows = rows;
    record.width = width;
    record.content_sha256 = Sha256Hex(payload);
    const std::string bytes = TensorFile(name, dtype, rows, width, Metadata(position), payload);
    record.bytes = bytes.size();
    record.sha256 = Sha256Hex(bytes);
    const absl::Status status = Put("capture/" + record.file, bytes);
    parts_.records.push_back(std::move(record));
    return status;
  }

  absl::Status WriteTensors() {
    const uint64_t rows = static_cast<uint64_t>(request_.suite.context_length) - 1;
    LogitMatrix head;
    if (request_.form == DatasetForm::kLogit) {
      ASSAY_ASSIGN_OR_RETURN(head, ReadDatasetHead(request_.head_file, request_.head_tensor));
    }
    for (size_t i = 0; i < request_.hidden.size(); ++i) {
      const std::string& path = request_.hidden[i];
      if (path.empty()) continue;
      ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
      ASSAY_RETURN_IF_ERROR(CheckHiddenFile(*file, rows, parts_.head.hidden));
      ASSAY_ASSIGN_OR_RETURN(const TensorView view, file->Find(kHiddenTensorName));
      if (request_.form == DatasetForm::kHidden) {
        ASSAY_RETURN_IF_ERROR(PutTensor(i, "hidden_states", DTypeName(view.dtype), rows,
                                        parts_.head.hidden, TextOf(view.bytes)));
        continue;
      }
      ASSAY_ASSIGN_OR_RETURN(const LogitMatrix logits, DatasetLogits(path, head));
      const std::string_view payload(reinterpret_cast<const char*>(logits.values.data()),
                                     logits.values.size() * sizeof(float));
      ASSAY_RETURN_IF_ERROR(PutTensor(i, "logits", "F32", rows, logits.columns, payload));
    }
    if (parts_.records.empty()) {
      return NotFoundError("CONTEXT_MISSING", "no context of the suite was captured");
    }
    return absl::OkStatus();
  }

  // In the order in which each needs the digests of those before.
  absl::Status WriteDocuments() {
    parts_.panel = PanelDocument(request_, parts_);
    ASSAY_ASSIGN_OR_RETURN(parts_.panel_sha256, PutJson("panel/panel.json", parts_.panel));
    parts_.runtime = RuntimeDocument(request_);
    ASSAY_ASSIGN_OR_RETURN(parts_.runtime_sha256,
                           PutJson("runtime/capture-runtime.json", parts_.runtime));
    parts_.head_json = HeadDocument(request_, parts_);
    ASSAY_RETURN_IF_ERROR(PutJson("head/head.json", parts_.head_json).status());
    parts_.capture = CaptureDocument(request_, parts_);
    ASSAY_ASSIGN_OR_RETURN(parts_.capture_sha256, PutJson("capture/manifest.json", parts_.capture));
    ASSAY_RETURN_IF_ERROR(
        PutJson("validation/structural-validation.json", ValidationDocument(request_)).status());
    std::sort(sums_.begin(), sums_.end());
    std::string sums;
    for (const auto& [name, digest] : sums_) sums += digest + "  " + name + "\n";
    parts_.checksums_sha256 = Sha256Hex(sums);
    ASSAY_RETURN_IF_ERROR(Put("checksums.txt", sums));
    return PutJson("fidelity-dataset.json", ManifestDocument(request_, parts_)).status();
  }

  absl::Status Check() {
    DatasetOptions options;
    options.allow_partial = parts_.records.size() != request_.suite.contexts.size();
    const DatasetVerdict verdict = VerifyDataset(root_, options);
    if (verdict.ok()) return absl::OkStatus();
    const Finding& first = verdict.findings.errors.front();
    return InvalidError("DATASET_REFUSED", "the dataset would be refused, " + first.code + " [" +
                                               first.rule + "]: " + first.message +
                                               "; change its description");
  }

  DatasetPackRequest request_;
  const std::string root_;
  PackedDocuments parts_;
  std::vector<std::pair<std::string, std::string>> sums_;  // name, digest
};

}  // namespace

absl::Status PackDataset(const DatasetPackRequest& request, const std::string& out) {
  if (FileExists(out) || IsDirectory(out)) {
    return Error(absl::StatusCode::kAlreadyExists, "OUT_OCCUPIED",
                 out + " exists already; give a folder that does not");
  }
  const std::string staging = out + ".part." + std::to_string(getpid());
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(staging));
  absl::Status status = Packer(request, staging).Run();
  if (status.ok()) {
    std::error_code error;
    std::filesystem::rename(staging, out, error);
    if (error) status = ErrnoError(error.value(), "renaming " + staging + " to " + out);
  }
  if (!status.ok()) (void)RemoveTree(staging);
  return status;
}

}  // namespace assay
