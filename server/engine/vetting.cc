#include "server/engine/vetting.h"

#include <vector>

#include "server/core/apply.h"
#include "server/core/unit_document.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/head.h"
#include "storage/report/positions.h"

namespace assay {
namespace {

constexpr int64_t kBytesMax = int64_t{1} << 53;
constexpr int64_t kCountMax = int64_t{1} << 40;

// The blob that an object names by "sha256" and "bytes".
absl::StatusOr<std::string> CheckBlob(const BlobStore& blobs, const Json& object,
                                      const std::string& where) {
  const JsonFields fields(object, where);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string sha256, fields.Sha256("sha256"));
  ASSAY_ASSIGN_OR_RETURN(const int64_t bytes, fields.Int("bytes", 1, kBytesMax));
  const auto size = blobs.Size(sha256);
  if (!size.ok()) {
    return InvalidError("RESULT_BLOB_MISSING",
                        where + ": blob " + sha256 + " was not pushed before the result");
  }
  if (*size != static_cast<uint64_t>(bytes)) {
    return InvalidError("RESULT_INVALID", where + ": blob " + sha256 + " has " +
                                              std::to_string(*size) + " bytes, not " +
                                              std::to_string(bytes));
  }
  return sha256;
}

absl::Status CheckHidden(const BlobStore& blobs, const Json& file) {
  ASSAY_ASSIGN_OR_RETURN(const std::string sha256, CheckBlob(blobs, file, "capture result: file"));
  const JsonFields fields(file, "capture result: file");
  ASSAY_ASSIGN_OR_RETURN(const int64_t rows, fields.Int("rows", 1, kCountMax));
  ASSAY_ASSIGN_OR_RETURN(const int64_t width, fields.Int("width", 1, kCountMax));
  ASSAY_ASSIGN_OR_RETURN(const std::string path, blobs.LocalPath(sha256));
  ASSAY_ASSIGN_OR_RETURN(const auto tensors, SafetensorsFile::Open(path));
  return CheckHiddenFile(*tensors, static_cast<uint64_t>(rows), static_cast<uint64_t>(width));
}

// The head must be what the worker says: its content digest becomes the head's name for everybody.
absl::Status CheckHead(const BlobStore& blobs, const Json& head) {
  const std::string where = "prepare result: head";
  ASSAY_ASSIGN_OR_RETURN(const std::string sha256, CheckBlob(blobs, head, where));
  const JsonFields fields(head, where);
  ASSAY_ASSIGN_OR_RETURN(const std::string content, fields.Sha256("content_sha256"));
  ASSAY_ASSIGN_OR_RETURN(const std::string tensor, fields.String("tensor"));
  ASSAY_ASSIGN_OR_RETURN(const int64_t vocab, fields.Int("vocab", 1, kCountMax));
  ASSAY_ASSIGN_OR_RETURN(const int64_t hidden, fields.Int("hidden", 1, kCountMax));
  ASSAY_ASSIGN_OR_RETURN(const std::string path, blobs.LocalPath(sha256));
  ASSAY_ASSIGN_OR_RETURN(const HeadInfo info, InspectHead(path, tensor));
  if (fields.Has("max_abs")) {
    ASSAY_ASSIGN_OR_RETURN(const double max_abs, fields.Number("max_abs"));
    if (max_abs != info.max_abs) {
      return InvalidError("RESULT_INVALID", where + ": max_abs is not that of blob " + sha256);
    }
  }
  if (info.content_sha256 == content && info.tensor == tensor && info.dtype == DType::kBF16 &&
      info.vocab == static_cast<uint64_t>(vocab) && info.hidden == static_cast<uint64_t>(hidden)) {
    return absl::OkStatus();
  }
  return InvalidError("RESULT_INVALID",
                      where + ": blob " + sha256 + " holds " + std::string(DTypeName(info.dtype)) +
                          " [" + std::to_string(info.vocab) + ", " + std::to_string(info.hidden) +
                          "] with digest " + info.content_sha256 + ", not what the result says");
}

// Every array that sealing will want is there, so that a bad file costs an attempt, not the run.
absl::Status CheckPositions(const BlobStore& blobs, const UnitExpectation& expected,
                            const Json& result) {
  ASSAY_ASSIGN_OR_RETURN(const std::string sha256, CheckBlob(blobs, result, "replay result"));
  ASSAY_ASSIGN_OR_RETURN(const std::string path, blobs.LocalPath(sha256));
  ASSAY_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  const std::vector<std::shared_ptr<const SafetensorsFile>> files = {std::move(file)};
  std::vector<ContextRows> contexts;
  for (const int64_t index : expected.unit.contexts) contexts.push_back({index, expected.rows});
  for (const std::string& comparison : expected.comparisons) {
    ASSAY_RETURN_IF_ERROR(AssemblePositions(files, comparison, contexts).status());
  }
  return absl::OkStatus();
}

}  // namespace

UnitExpectation ExpectationOf(const State& state, const UnitRow& unit) {
  UnitExpectation out;
  out.unit = unit;
  if (unit.kind != UnitKind::kReplay && unit.kind != UnitKind::kNoise) return out;
  const RunRow& run = state.runs.at(unit.run);
  out.rows = static_cast<uint64_t>(ScoredPositions(run));
  if (unit.kind == UnitKind::kNoise) out.comparisons = {kNoiseComparison};
  if (unit.kind == UnitKind::kReplay) {
    for (const uint32_t candidate : unit.candidates) {
      for (const std::string& mode : HeadModes(run, run.candidates[candidate]))
        out.comparisons.push_back(ComparisonId(candidate, mode));
    }
  }
  return out;
}

absl::Status VetResult(const BlobStore& blobs, const UnitExpectation& expected,
                       const std::string& result_json) {
  const UnitRow& unit = expected.unit;
  ASSAY_ASSIGN_OR_RETURN(const Json result,
                         ParseJson(result_json, "result of unit " + std::to_string(unit.id)));
  const JsonFields fields(result, "result of unit " + std::to_string(unit.id));
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  switch (unit.kind) {
    case UnitKind::kPrepare: {
      ASSAY_ASSIGN_OR_RETURN(const Json* head, fields.Object("head"));
      return CheckHead(blobs, *head);
    }
    case UnitKind::kCapture:
    case UnitKind::kRepeat: {
      ASSAY_ASSIGN_OR_RETURN(const Json* files, fields.Array("files"));
      for (const Json& file : *files) ASSAY_RETURN_IF_ERROR(CheckHidden(blobs, file));
      return absl::OkStatus();
    }
    case UnitKind::kReplay:
    case UnitKind::kNoise:
      return CheckPositions(blobs, expected, result);
  }
  return absl::OkStatus();
}

}  // namespace assay
