#include "storage/vllm/final_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/f16.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/pairwise_sum.h"
#include "storage/base/status.h"
#include "storage/format/model_files.h"
#include "storage/format/safetensors.h"

namespace assay {
namespace {

// Values of model_type whose final norm is RMSNorm times its weight.
constexpr std::array<std::string_view, 9> kPlain = {"deepseek_v3", "llama", "mistral",
                                                    "mixtral",     "phi3",  "qwen2",
                                                    "qwen2_moe",   "qwen3", "qwen3_moe"};
// Those whose final norm multiplies by one plus the stored weight.
constexpr std::array<std::string_view, 9> kPlusOne = {
    "gemma",       "gemma2",           "gemma3",       "gemma3_text", "qwen3_5",
    "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"};

template <size_t N>
bool Contains(const std::array<std::string_view, N>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::string KnownFamilies() {
  std::vector<std::string_view> names(kPlain.begin(), kPlain.end());
  names.insert(names.end(), kPlusOne.begin(), kPlusOne.end());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string_view name : names) {
    text += text.empty() ? "" : ", ";
    text += name;
  }
  return text;
}

struct FoundWeight {
  std::shared_ptr<const SafetensorsFile> file;
  TensorView tensor;
};

absl::StatusOr<FoundWeight> FindWeight(const std::string& folder, const ModelFiles& files) {
  std::vector<FoundWeight> found;
  for (const std::string& name : files.weights) {
    ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(JoinPath(files.root, name)));
    for (const TensorView& tensor : file->tensors()) {
      if (IsFinalNormName(tensor.name)) found.push_back({file, tensor});
    }
  }
  if (found.size() == 1) return found[0];
  std::string names;
  for (const FoundWeight& one : found) names += (names.empty() ? "" : ", ") + one.tensor.name;
  return NotFoundError("TENSOR_MISSING",
                       folder + ": " + (names.empty() ? "no tensor" : names) +
                           " instead of one final norm such as model.norm.weight");
}

absl::Status ReadWeight(const FoundWeight& found, FinalNorm* norm) {
  const TensorView& tensor = found.tensor;
  const bool readable =
      tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kF32;
  if (!readable || tensor.shape.size() != 1) {
    return InvalidError("DTYPE_UNSUPPORTED",
                        found.file->path() + ": " + tensor.name + " is " +
                            std::string(DTypeName(tensor.dtype)) + " with " +
                            std::to_string(tensor.shape.size()) +
                            " axes; a norm's weight is one row of BF16, F16 or F32");
  }
  norm->tensor = tensor.name;
  norm->weight_sha256 =
      Sha256Hex({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  norm->weight.resize(tensor.elements());
  for (size_t i = 0; i < norm->weight.size(); ++i) {
    float value = 0;
    uint16_t bits = 0;
    if (tensor.dtype == DType::kF32) {
      std::memcpy(&value, tensor.bytes.data() + i * sizeof value, sizeof value);
    } else {
      std::memcpy(&bits, tensor.bytes.data() + i * sizeof bits, sizeof bits);
      value = tensor.dtype == DType::kBF16 ? Bf16ToFloat(bits) : F16ToFloat(bits);
    }
    norm->weight[i] = static_cast<double>(value) + (norm->plus_one ? 1.0 : 0.0);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ModelType(const Json& config, const JsonFields& text) {
  if (text.Has("model_type")) return text.String("model_type");
  return JsonFields(config, text.where()).String("model_type");
}

}  // namespace

bool IsFinalNormName(std::string_view name) {
  constexpr std::string_view kEnd = "norm.weight";
  if (!name.ends_with(kEnd)) return false;
  const std::string_view prefix = name.substr(0, name.size() - kEnd.size());
  if (prefix.empty()) return true;
  for (const std::string_view last : {"model.", "language_model."}) {
    if (!prefix.ends_with(last)) continue;
    const std::string_view before = prefix.substr(0, prefix.size() - last.size());
    if (before.empty() || before.back() == '.') return true;
  }
  return false;
}

absl::Status FinalNorm::Apply(std::span<float> rows, uint64_t width) const {
  if (width != weight.size()) {
    return InvalidError("SHAPE_MISMATCH",
                        "the states have " + std::to_string(width) + " columns, the final norm " +
                            std::to_string(weight.size()) + ": it is of another model");
  }
  std::vector<double> squares(width);
  for (size_t begin = 0; begin + width <= rows.size(); begin += width) {
    const std::span<float> row = rows.subspan(begin, width);
    for (size_t i = 0; i < width; ++i) {
      const auto value = static_cast<double>(row[i]);
      squares[i] = value * value;
    }
    const double mean = PairwiseSum(squares) / static_cast<double>(width);
    const double scale = 1.0 / std::sqrt(mean + eps);
    for (size_t i = 0; i < width; ++i) {
      row[i] = static_cast<float>(static_cast<double>(row[i]) * scale * weight[i]);
    }
  }
  return absl::OkStatus();
}

Json FinalNorm::Describe() const {
  return {{"arithmetic", "float64, rounded once to float32"},
          {"tensor", tensor},
          {"weight_sha256", weight_sha256},
          {"eps", eps},
          {"one_plus_weight", plus_one}};
}

absl::StatusOr<FinalNorm> LoadFinalNorm(const std::string& folder) {
  const std::string path = JoinPath(folder, "config.json");
  if (!FileExists(path)) {
    return InvalidError("MODEL_UNRECOGNISED",
                        folder +
                            ": no Hugging Face folder (config.json and safetensors); give one as "
                            "--final-norm");
  }
  constexpr uint64_t kConfigBytesMax = uint64_t{64} << 20;
  constexpr int64_t kLayersMax = 1 << 20;
  ASSAY_ASSIGN_OR_RETURN(const Json config, ReadJsonFile(path, kConfigBytesMax));
  const JsonFields whole(config, path);
  ASSAY_RETURN_IF_ERROR(whole.CheckObject());
  const Json* text = &config;
  if (whole.Has("text_config")) {
    ASSAY_ASSIGN_OR_RETURN(text, whole.Object("text_config"));
  }
  const JsonFields fields(*text, path);
  ASSAY_ASSIGN_OR_RETURN(const std::string kind, ModelType(config, fields));
  FinalNorm norm;
  norm.plus_one = Contains(kPlusOne, kind);
  if (!norm.plus_one && !Contains(kPlain, kind)) {
    return InvalidError("FINAL_NORM_UNKNOWN",
                        path + ": it is not known how the final norm of model_type \"" +
                            kind.substr(0, 80) + "\" works (known: " + KnownFamilies() +
                            "); apply the model's own norm and write with assay.CaptureWriter of "
                            "the Python package");
  }
  ASSAY_ASSIGN_OR_RETURN(norm.eps, fields.Number("rms_norm_eps"));
  ASSAY_ASSIGN_OR_RETURN(norm.layers, fields.Int("num_hidden_layers", 1, kLayersMax));
  ASSAY_ASSIGN_OR_RETURN(const ModelFiles files, ResolveModelFiles(folder));
  ASSAY_RETURN_IF_ERROR(CheckModelLinks(files));
  ASSAY_ASSIGN_OR_RETURN(const FoundWeight weight, FindWeight(folder, files));
  ASSAY_RETURN_IF_ERROR(ReadWeight(weight, &norm));
  return norm;
}

}  // namespace assay
