#include "storage/format/capture.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/logits_advice.h"

namespace assay {
namespace {

// Families of one form.
constexpr std::string_view kSchemaPrefixes[] = {"qwen38-fidelity-capture/",
                                                "glm53flash-fidelity-capture/"};
constexpr uint64_t kWidthMax = uint64_t{1} << 24;

absl::Status Bad(const std::string& where, const std::string& why) {
  return InvalidError("CAPTURE_INVALID",
                      where + ": " + why + "; fetch the capture again or capture anew");
}

absl::StatusOr<CaptureRecord> ReadRecord(const Json& json, const std::string& where) {
  const JsonFields fields(json, where);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  CaptureRecord out;
  ASSAY_ASSIGN_OR_RETURN(out.index, fields.Int("index", 0, kSuiteContextsMax - 1));
  ASSAY_ASSIGN_OR_RETURN(out.sha256, fields.Sha256("sha256"));
  ASSAY_ASSIGN_OR_RETURN(const Json* shape, fields.Array("shape"));
  if (shape->size() != 2) return fields.Invalid("shape", "must be [rows, width]");
  const auto valid = [](const Json& size, uint64_t max) {
    return size.is_number_integer() && size.get<int64_t>() > 0 && size.get<uint64_t>() <= max;
  };
  if (!valid((*shape)[0], kSuiteContextLengthMax) || !valid((*shape)[1], kWidthMax))
    return fields.Invalid("shape", "must hold two positive sizes");
  out.rows = (*shape)[0].get<uint64_t>();
  out.width = (*shape)[1].get<uint64_t>();
  return out;
}

absl::Status ReadRecords(const Json& list, const std::string& where, CaptureManifest& out) {
  std::set<int64_t> seen;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string row = where + ": captures[" + std::to_string(i) + "]";
    ASSAY_ASSIGN_OR_RETURN(CaptureRecord record, ReadRecord(list[i], row));
    if (!seen.insert(record.index).second)
      return Bad(row, "index " + std::to_string(record.index) + " appears twice");
    out.records.push_back(std::move(record));
  }
  std::sort(out.records.begin(), out.records.end(),
            [](const CaptureRecord& a, const CaptureRecord& b) { return a.index < b.index; });
  return absl::OkStatus();
}

// What the manifest says of itself a second time: the contract's digest and the expected set.
absl::Status CheckRepeated(const JsonFields& fields, const CaptureManifest& manifest) {
  const std::string& where = fields.where();
  if (fields.Has("capture_contract") && fields.Has("capture_contract_sha256")) {
    ASSAY_ASSIGN_OR_RETURN(const Json* contract, fields.Object("capture_contract"));
    ASSAY_ASSIGN_OR_RETURN(const std::string stated, fields.Sha256("capture_contract_sha256"));
    if (Sha256Hex(PythonCanonJson(*contract)) != stated) {
      return DataLossError("DIGEST_MISMATCH",
                           where +
                               ": capture_contract_sha256 is not the digest of "
                               "capture_contract; the manifest was changed, fetch it again");
    }
  }
  if (manifest.complete && fields.Has("expected_indices")) {
    ASSAY_ASSIGN_OR_RETURN(const Json* expected, fields.Array("expected_indices"));
    Json recorded = Json::array();
    for (const CaptureRecord& record : manifest.records) recorded.push_back(record.index);
    if (*expected != recorded) return Bad(where, "expected_indices are not those of its captures");
  }
  return absl::OkStatus();
}

// A /2 manifest's optional parts; a legacy one has none of them.
absl::Status ReadCurrent(const JsonFields& fields, CaptureManifest& out) {
  if (fields.Has("schema")) {
    ASSAY_ASSIGN_OR_RETURN(out.schema, fields.String("schema"));
    if (std::none_of(std::begin(kSchemaPrefixes), std::end(kSchemaPrefixes),
                     [&](std::string_view prefix) { return out.schema.rfind(prefix, 0) == 0; })) {
      return Bad(fields.where(), "schema \"" + out.schema.substr(0, 80) + "\" is not supported, " +
                                     std::string(kCaptureSchema) + " is");
    }
  }
  ASSAY_ASSIGN_OR_RETURN(out.complete, fields.Bool("complete"));
  if (fields.Has("filter")) {
    ASSAY_ASSIGN_OR_RETURN(out.filter, fields.String("filter"));
  }
  if (fields.Has("context_length")) {
    ASSAY_ASSIGN_OR_RETURN(out.context_length,
                           fields.Int("context_length", 2, kSuiteContextLengthMax));
  }
  if (fields.Has("cut_point")) {
    ASSAY_ASSIGN_OR_RETURN(out.cut_point, fields.String("cut_point"));
  }
  return absl::OkStatus();
}

absl::Status CheckUsable(const CaptureManifest& manifest, const Suite& suite,
                         const std::string& where) {
  if (!manifest.complete) {
    return PreconditionError("CAPTURE_INCOMPLETE",
                             where + ": the capture is not complete; finish it or fetch it again");
  }
  if (manifest.suite_token_sha256 != suite.suite_token_sha256) {
    return InvalidError("SUITE_MISMATCH", where + ": captured over suite " +
                                              manifest.suite_token_sha256.substr(0, 16) +
                                              ", the suite given is " +
                                              suite.suite_token_sha256.substr(0, 16) +
                                              "; use the suite that it was captured over");
  }
  if (manifest.context_length != 0 && manifest.context_length != suite.context_length) {
    return InvalidError("SHAPE_MISMATCH",
                        where + ": context_length " + std::to_string(manifest.context_length) +
                            " differs from the suite's " + std::to_string(suite.context_length));
  }
  return absl::OkStatus();
}

absl::Status CheckSelectedFile(const CaptureRecord& record, uint64_t rows, uint64_t width,
                               const std::string& path, bool verify_digest) {
  if (!FileExists(path)) {
    return NotFoundError("FILE_MISSING",
                         path + ": the capture's manifest names it, but it is not there; fetch it");
  }
  if (record.rows != rows || record.width != width) {
    return InvalidError("SHAPE_MISMATCH", path + ": recorded as [" + std::to_string(record.rows) +
                                              ", " + std::to_string(record.width) +
                                              "] instead of [" + std::to_string(rows) + ", " +
                                              std::to_string(width) + "]");
  }
  if (verify_digest) {
    ASSAY_ASSIGN_OR_RETURN(const std::string digest, Sha256File(path));
    if (digest != record.sha256) {
      return DataLossError("DIGEST_MISMATCH", path + ": SHA-256 is " + digest +
                                                  ", the capture manifest states " + record.sha256 +
                                                  "; the file was changed, fetch it again");
    }
  }
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  return CheckHiddenFile(*file, rows, width);
}

// What describes a capture is repeated in reports, whose canonical JSON holds integers up to 2^53.
// Said here, where the field has a name.
absl::Status CheckIntegers(const Json& value, const std::string& field, const std::string& where) {
  constexpr uint64_t kExact = uint64_t{1} << 53;
  if (value.is_structured()) {
    for (const auto& [key, item] : value.items()) {
      ASSAY_RETURN_IF_ERROR(CheckIntegers(item, field + "." + key.substr(0, 80), where));
    }
    return absl::OkStatus();
  }
  const bool large =
      value.is_number_unsigned()
          ? value.get<uint64_t>() > kExact
          : value.is_number_integer() && value.get<int64_t>() < -static_cast<int64_t>(kExact);
  if (!large) return absl::OkStatus();
  return InvalidError("FIELD_INVALID", where + ": field \"" + field +
                                           "\" is an integer beyond 2^53, which readers of JSON "
                                           "do not agree on; write it as text");
}

}  // namespace

std::string CaptureManifest::ContentSha256() const {
  Json list = Json::array();
  for (const CaptureRecord& record : records) {
    Json row = Json::object();
    row["index"] = record.index;
    row["sha256"] = record.sha256;
    row["shape"] = {record.rows, record.width};
    list.push_back(std::move(row));
  }
  Json content = Json::object();
  content["suite_token_sha256"] = suite_token_sha256;
  content["cut_point"] = cut_point;
  content["records"] = std::move(list);
  return Sha256Hex(PythonCanonJson(content));
}

absl::StatusOr<CaptureManifest> ParseCaptureManifest(const Json& json, std::string_view where) {
  const JsonFields fields(json, std::string(where));
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  for (const char* described : {"candidate_identity", "engine_identity", "capture_contract"}) {
    const auto it = json.find(described);
    if (it == json.end()) continue;
    ASSAY_RETURN_IF_ERROR(CheckIntegers(*it, described, std::string(where)));
  }
  CaptureManifest out;
  out.json = json;
  out.cut_point = std::string(kDefaultCutPoint);
  // Rule "legacy" (qwen-suites 2.7): neither schema nor complete. Such a manifest was written once,
  // at the end of a run; a resumed run did not list what it skipped, so the counts must agree.
  out.legacy = !json.contains("schema") && !json.contains("complete");
  if (out.legacy) {
    out.complete = true;
  } else {
    ASSAY_RETURN_IF_ERROR(ReadCurrent(fields, out));
  }
  ASSAY_ASSIGN_OR_RETURN(out.suite_token_sha256, fields.Sha256("suite_token_sha256"));
  ASSAY_ASSIGN_OR_RETURN(const Json* captures, fields.Array("captures"));
  ASSAY_RETURN_IF_ERROR(ReadRecords(*captures, std::string(where), out));
  ASSAY_ASSIGN_OR_RETURN(const int64_t contexts, fields.Int("contexts", 0, kSuiteContextsMax));
  if (contexts != static_cast<int64_t>(out.records.size())) {
    return Bad(std::string(where),
               "contexts says " + std::to_string(contexts) + ", captures lists " +
                   std::to_string(out.records.size()) +
                   (out.legacy ? " (a resumed legacy capture did not record all its files)" : ""));
  }
  ASSAY_RETURN_IF_ERROR(CheckRepeated(fields, out));
  return out;
}

std::string CaptureManifestPath(const std::string& dir) {
  const std::string usual = JoinPath(dir, kCaptureManifestName);
  const std::string shard = JoinPath(dir, kCaptureShardManifestName);
  return !FileExists(usual) && FileExists(shard) ? shard : usual;
}

absl::StatusOr<CaptureManifest> ReadCaptureManifest(const std::string& dir) {
  const std::string path = CaptureManifestPath(dir);
  if (!FileExists(path)) {
    if (const std::string advice = LogitsFileAdvice(dir); !advice.empty()) {
      return InvalidError("CAPTURE_EXPECTED", dir + " is no capture; " + advice);
    }
    return NotFoundError("FILE_MISSING",
                         path + ": there is no such file, so " + dir +
                             " is no capture; give a folder that assay capture, or another "
                             "engine's capture script, has written");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kCaptureManifestBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const Json json, ParseJson(bytes, path));
  ASSAY_ASSIGN_OR_RETURN(CaptureManifest manifest, ParseCaptureManifest(json, path));
  manifest.manifest_sha256 = Sha256Hex(bytes);
  return manifest;
}

absl::StatusOr<CaptureDir> OpenCapture(const std::string& dir, const Suite& suite,
                                       std::string_view filter, bool verify_digests) {
  CaptureDir out;
  out.dir = dir;
  const std::string manifest_path = CaptureManifestPath(dir);
  ASSAY_ASSIGN_OR_RETURN(out.manifest, ReadCaptureManifest(dir));
  ASSAY_RETURN_IF_ERROR(CheckUsable(out.manifest, suite, manifest_path));

  std::map<int64_t, const CaptureRecord*> recorded;
  for (const CaptureRecord& record : out.manifest.records) recorded[record.index] = &record;
  ASSAY_ASSIGN_OR_RETURN(const std::vector<size_t> selected, SelectContexts(suite, filter));
  std::set<int64_t> indices;
  for (size_t position : selected) indices.insert(suite.contexts[position].index);
  for (int64_t index : indices) {
    if (recorded.count(index) == 0) {
      return NotFoundError("CONTEXT_MISSING",
                           manifest_path + ": context " + std::to_string(index) +
                               " was not captured; capture it, narrow the filter, or give the "
                               "--limit that it was captured with");
    }
  }
  const uint64_t rows = static_cast<uint64_t>(suite.context_length) - 1;
  const uint64_t width = recorded.at(*indices.begin())->width;
  for (int64_t index : indices) {
    const std::string path = JoinPath(dir, HiddenFileName(index));
    ASSAY_RETURN_IF_ERROR(
        CheckSelectedFile(*recorded.at(index), rows, width, path, verify_digests));
    out.files[index] = path;
  }
  return out;
}

absl::StatusOr<std::string> BuildHiddenFile(std::span<const uint16_t> bf16_rows, uint64_t rows,
                                            uint64_t width) {
  if (width == 0 || bf16_rows.size() % width != 0 || bf16_rows.size() / width != rows) {
    return InternalError("SHAPE_MISMATCH", "hidden states: " + std::to_string(bf16_rows.size()) +
                                               " values are not [" + std::to_string(rows) + ", " +
                                               std::to_string(width) + "]");
  }
  SafetensorsBuilder builder;
  builder.Add(std::string(kHiddenTensorName), DType::kBF16, {rows, width},
              {reinterpret_cast<const uint8_t*>(bf16_rows.data()), bf16_rows.size_bytes()});
  return builder.Build();
}

absl::Status CheckHiddenFile(const SafetensorsFile& file, uint64_t rows, uint64_t width) {
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file.Find(kHiddenTensorName));
  if (tensor.dtype != DType::kBF16 && tensor.dtype != DType::kF32) {
    return InvalidError("SHAPE_MISMATCH", file.path() + ": hidden_states is " +
                                              std::string(DTypeName(tensor.dtype)) +
                                              ", BF16 or F32 is needed");
  }
  if (tensor.shape != std::vector<uint64_t>{rows, width}) {
    std::string shape;
    for (uint64_t dim : tensor.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(dim);
    return InvalidError("SHAPE_MISMATCH", file.path() + ": hidden_states is [" + shape +
                                              "] instead of [" + std::to_string(rows) + ", " +
                                              std::to_string(width) + "]");
  }
  return absl::OkStatus();
}

std::string HiddenFileName(int64_t index) {
  char name[64];
  std::snprintf(name, sizeof name, "hidden_%04lld.safetensors", static_cast<long long>(index));
  return name;
}

}  // namespace assay
