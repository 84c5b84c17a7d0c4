#include "worker/capture/weights/packed_open.h"

#include <utility>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/weights/awq.h"
#include "worker/capture/weights/foreign_formats.h"
#include "worker/capture/weights/fp4_packed.h"
#include "worker/capture/weights/load.h"
#include "worker/capture/weights/plain_quantized.h"

namespace assay {
namespace {

using Opened = absl::StatusOr<std::unique_ptr<PackedTensor>>;

class Opener {
 public:
  Opener(const QuantConfig& config, const PackedQuery& query, const TensorLookup& find)
      : config_(config), query_(query), find_(find) {
    const size_t dot = query.weight.rfind('.');
    parts_.module = query.weight.substr(0, dot == std::string::npos ? 0 : dot);
    parts_.file = query.file;
    parts_.rows = query.rows;
    parts_.cols = query.cols;
    scheme_ = config.SchemeOf(parts_.module);
  }

  Opened Open();
  std::vector<std::string> used() && { return std::move(used_); }

 private:
  const TensorView* Find(std::string_view suffix) {
    const TensorView* view = find_(parts_.module + std::string(suffix));
    if (view != nullptr) used_.push_back(view->name);
    return view;
  }
  Opened OpenPackedWords();
  Opened OpenStoredBytes();
  Opened OpenFp8();
  Opened OpenTransposed();
  Opened OpenBlocks();
  absl::Status CheckStoredShape();
  // QUANTIZATION_INVALID unless the configuration covers the module with this format.
  absl::Status Expect(std::string_view format) const;
  absl::Status Refuse(std::string_view format) const {
    return UnsupportedFormat(query_.file, parts_.codes->name, format);
  }

  const QuantConfig& config_;
  const PackedQuery& query_;
  const TensorLookup& find_;
  PackedParts parts_;
  const QuantScheme* scheme_ = nullptr;
  std::vector<std::string> used_;
};

absl::Status Opener::Expect(std::string_view format) const {
  if (scheme_ != nullptr && scheme_->format == format) return absl::OkStatus();
  std::string why = "is packed, but config.json has no quantization_config";
  if (config_.present()) {
    why = scheme_ == nullptr
              ? "is packed, but quantization_config ignores its module or does not target it"
              : "is packed as " + std::string(format) + ", but quantization_config says " +
                    scheme_->format.substr(0, 40) + " for its module";
  }
  return QuantizationError(parts_, *parts_.codes, why);
}

Opened Opener::Open() {
  if ((parts_.codes = Find(".qweight")) != nullptr) return OpenTransposed();
  if ((parts_.codes = Find(".weight_packed")) != nullptr) return OpenPackedWords();
  if ((parts_.codes = find_(query_.weight + "_blocks")) != nullptr) return OpenBlocks();
  if ((parts_.codes = Find(".weight")) != nullptr) return OpenStoredBytes();
  for (const char* suffix : {".q_weight", ".trellis", ".W_q", ".codes", ".Qidxs", ".B"}) {
    if ((parts_.codes = find_(parts_.module + suffix)) != nullptr)
      return Refuse(ForeignFormatOfTensor(suffix));
  }
  return NotFoundError("TENSOR_MISSING",
                       query_.file + ": tensor \"" + query_.weight +
                           "\" is missing; the checkpoint is incomplete, fetch it again");
}

absl::Status Opener::CheckStoredShape() {
  const TensorView* shape = Find(".weight_shape");
  if (shape == nullptr) return absl::OkStatus();
  const bool sound = shape->dtype == DType::kI64 && shape->elements() == 2;
  const std::vector<uint64_t> want = {parts_.rows, parts_.cols};
  if (sound && Load<uint64_t>(shape->bytes.data()) == want[0] &&
      Load<uint64_t>(shape->bytes.data() + 8) == want[1]) {
    return absl::OkStatus();
  }
  return QuantizationError(parts_, *shape, "does not say " + ShapeText(want));
}

Opened Opener::OpenPackedWords() {
  ASSAY_RETURN_IF_ERROR(CheckStoredShape());
  parts_.scales = Find(".weight_scale");
  if (parts_.codes->dtype == DType::kI32) {
    ASSAY_RETURN_IF_ERROR(Expect("pack-quantized"));
    parts_.zeros = Find(".weight_zero_point");
    parts_.group_index = Find(".weight_g_idx");
    return MakePackQuantized(parts_, scheme_->integer);
  }
  if (parts_.codes->dtype != DType::kU8) return Refuse(DTypeName(parts_.codes->dtype));
  if (parts_.scales != nullptr && parts_.scales->dtype == DType::kU8) {
    ASSAY_RETURN_IF_ERROR(Expect("mxfp4-pack-quantized"));
    return MakeFp4Packed(parts_, Fp4Format::kMxfp4);
  }
  ASSAY_RETURN_IF_ERROR(Expect("nvfp4-pack-quantized"));
  parts_.global_scale = Find(".weight_global_scale");
  return MakeFp4Packed(parts_, Fp4Format::kNvfp4);
}

Opened Opener::OpenStoredBytes() {
  const DType dtype = parts_.codes->dtype;
  if (!config_.foreign().empty()) return Refuse(config_.foreign());
  if (dtype == DType::kF8E4M3) return OpenFp8();
  if (dtype == DType::kI8) {
    ASSAY_RETURN_IF_ERROR(Expect("int-quantized"));
    parts_.scales = Find(".weight_scale");
    parts_.zeros = Find(".weight_zero_point");
    if (parts_.zeros == nullptr && !scheme_->integer.symmetric)
      return QuantizationMissing(parts_, "weight_zero_point");
    return MakePlainQuantized(parts_, scheme_->integer.block, "int-quantized");
  }
  // ModelOpt's tensors explain themselves; its older folders say nothing in config.json.
  if (dtype == DType::kU8 && (parts_.global_scale = Find(".weight_scale_2")) != nullptr) {
    if (config_.present()) ASSAY_RETURN_IF_ERROR(Expect("modelopt"));
    parts_.scales = Find(".weight_scale");
    return MakeFp4Packed(parts_, Fp4Format::kModelOptNvfp4);
  }
  return Refuse(DTypeName(dtype));
}

Opened Opener::OpenFp8() {
  if (scheme_ == nullptr) return Expect("fp8");
  const std::string& format = scheme_->format;
  parts_.scales = Find(".weight_scale_inv");
  if (parts_.scales == nullptr) parts_.scales = Find(".weight_scale");
  if (parts_.scales == nullptr) return QuantizationMissing(parts_, "weight_scale");
  if (parts_.scales->dtype == DType::kU8) {
    if (format != "modelopt") ASSAY_RETURN_IF_ERROR(Expect("mxfp8-quantized"));
    return MakePlainQuantized(parts_, {1, 32}, "mxfp8-quantized");
  }
  if (format != "fp8" && format != "modelopt") ASSAY_RETURN_IF_ERROR(Expect("float-quantized"));
  ScaleBlock block = scheme_->integer.block;
  // Without blocks, "fp8" and ModelOpt leave it to the shape: one value, or one for each output.
  if (format == "modelopt" || (format == "fp8" && block.rows == 0))
    block = {parts_.scales->elements() == 1 ? uint64_t{0} : uint64_t{1}, 0};
  return MakePlainQuantized(parts_, block, format == "modelopt" ? "ModelOpt FP8" : format);
}

Opened Opener::OpenTransposed() {
  parts_.scales = Find(".scales");
  parts_.zeros = Find(".qzeros");
  parts_.group_index = Find(".g_idx");
  if (!config_.foreign().empty()) return Refuse(config_.foreign());
  if (config_.method() == "awq") {
    ASSAY_RETURN_IF_ERROR(Expect("awq"));
    return MakeAwq(parts_, scheme_->gptq.group);
  }
  ASSAY_RETURN_IF_ERROR(Expect("gptq"));
  if (scheme_->needs_index && parts_.group_index == nullptr)
    return QuantizationMissing(parts_, "g_idx, which activation order (desc_act) needs");
  return MakeGptq(parts_, scheme_->gptq);
}

Opened Opener::OpenBlocks() {
  used_.push_back(parts_.codes->name);
  ASSAY_RETURN_IF_ERROR(Expect("mxfp4"));
  parts_.scales = find_(query_.weight + "_scales");
  if (parts_.scales != nullptr) used_.push_back(parts_.scales->name);
  return MakeFp4Packed(parts_, Fp4Format::kMxfp4Blocks);
}

}  // namespace

absl::StatusOr<PackedWeight> OpenPackedWeight(const QuantConfig& config, const PackedQuery& query,
                                              const TensorLookup& find) {
  Opener opener(config, query, find);
  PackedWeight out;
  ASSAY_ASSIGN_OR_RETURN(out.tensor, opener.Open());
  out.used = std::move(opener).used();
  return out;
}

bool IsActivationScale(std::string_view name) {
  for (const char* suffix :
       {".input_scale", ".input_global_scale", ".input_zero_point", ".input_g_idx", ".output_scale",
        ".output_zero_point", ".k_scale", ".v_scale", ".q_scale", ".kv_scale", ".k_zero_point",
        ".v_zero_point", ".k_proj.output_scale", ".v_proj.output_scale"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

}  // namespace assay
