#include "server/engine/vetting.h"

#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"

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

}  // namespace

absl::Status VetResult(const BlobStore& blobs, const UnitRow& unit,
                       const std::string& result_json) {
  ASSAY_ASSIGN_OR_RETURN(const Json result,
                         ParseJson(result_json, "result of unit " + std::to_string(unit.id)));
  const JsonFields fields(result, "result of unit " + std::to_string(unit.id));
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  switch (unit.kind) {
    case UnitKind::kPrepare: {
      ASSAY_ASSIGN_OR_RETURN(const Json* head, fields.Object("head"));
      return CheckBlob(blobs, *head, "prepare result: head").status();
    }
    case UnitKind::kCapture:
    case UnitKind::kRepeat: {
      ASSAY_ASSIGN_OR_RETURN(const Json* files, fields.Array("files"));
      for (const Json& file : *files) ASSAY_RETURN_IF_ERROR(CheckHidden(blobs, file));
      return absl::OkStatus();
    }
    case UnitKind::kReplay:
    case UnitKind::kNoise:
      return CheckBlob(blobs, result, "replay result").status();
  }
  return absl::OkStatus();
}

}  // namespace assay
