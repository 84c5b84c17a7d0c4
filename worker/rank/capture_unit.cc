// Units of kind "capture".

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/head.h"
#include "storage/format/safetensors.h"
#include "worker/rank/unit.h"
#include "worker/rank/unit_fields.h"

namespace assay {
namespace {

absl::StatusOr<CaptureRequest> ReadRequest(const Json& unit, const UnitContext& context) {
  const JsonFields fields(unit, "unit");
  ASSAY_ASSIGN_OR_RETURN(const UnitModel model, ReadUnitModel(fields));
  CaptureRequest request;
  request.model_path = model.path;
  request.transform = model.transform;
  request.out_dir = context.out_dir;
  request.threads = context.threads;
  ASSAY_ASSIGN_OR_RETURN(const Json* contexts, UnitArray(fields, "contexts", 1, kUnitContextsMax));
  for (size_t i = 0; i < contexts->size(); ++i) {
    const JsonFields entry((*contexts)[i], "unit: contexts[" + std::to_string(i) + "]");
    ASSAY_RETURN_IF_ERROR(entry.CheckObject());
    CaptureContext out;
    ASSAY_ASSIGN_OR_RETURN(out.index, entry.Int("index", 0, int64_t{1} << 40));
    ASSAY_ASSIGN_OR_RETURN(out.tokens, UnitTokens(entry, "tokens", 0));
    request.contexts.push_back(std::move(out));
  }
  if (fields.Has("taps")) {
    ASSAY_ASSIGN_OR_RETURN(const Json* taps, UnitArray(fields, "taps", 0, kUnitTapsMax));
    for (const Json& tap : *taps) {
      if (!tap.is_string()) return fields.Invalid("taps", "must hold strings");
      request.taps.push_back(tap.get<std::string>());
    }
  }
  return request;
}

}  // namespace

absl::StatusOr<UnitOutput> ExecuteCapture(const Json& unit, const UnitContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const CaptureRequest request, ReadRequest(unit, context));
  if (context.capture == nullptr) {
    return PreconditionError("CAPTURE_ENGINE_MISSING", context.capture_missing);
  }
  CaptureCounters counters;
  ASSAY_ASSIGN_OR_RETURN(
      const std::vector<CaptureOutput> outputs,
      context.capture->Capture(request, *context.collective, context.progress, &counters));
  UnitOutput out;
  out.multiply_adds = counters.multiply_adds;
  out.weight_bytes = counters.weight_bytes;
  out.result["files"] = Json::array();
  for (const CaptureOutput& output : outputs) {
    out.result["files"].push_back({{"index", output.index},
                                   {"file", BaseName(output.file)},
                                   {"sha256", output.sha256},
                                   {"bytes", output.bytes},
                                   {"rows", output.rows},
                                   {"width", output.width}});
    // Rank 0 speaks for the group; the file was written just now.
    if (context.collective->rank() != 0) continue;
    ASSAY_ASSIGN_OR_RETURN(const auto file,
                           SafetensorsFile::Open(JoinPath(context.out_dir, BaseName(output.file))));
    ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file->Find(kHiddenTensorName));
    out.result["files"].back()["max_abs"] = MaxAbs(tensor);
  }
  out.result["identity"] = context.capture->Identity();
  return out;
}

}  // namespace assay
