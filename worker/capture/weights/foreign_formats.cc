#include "worker/capture/weights/foreign_formats.h"

#include "storage/base/status.h"

namespace assay {
namespace {

struct Named {
  std::string_view key, name;
};

constexpr Named kMethods[] = {
    {"bitsandbytes", "bitsandbytes"},
    {"bnb", "bitsandbytes"},
    {"exl2", "EXL2"},
    {"exl3", "EXL3"},
    {"hqq", "HQQ"},
    {"aqlm", "AQLM"},
    {"torchao", "torchao"},
    {"mlx", "MLX"},
    {"quip", "QuIP#"},
    {"spqr", "SpQR"},
    {"vptq", "VPTQ"},
    {"higgs", "HIGGS"},
    {"eetq", "EETQ"},
    {"fbgemm_fp8", "FBGEMM FP8"},
    {"quanto", "Quanto"},
    {"bitnet", "BitNet"},
    {"quark", "Quark"},
    {"auto-round", "AutoRound"},
    {"intel/auto-round", "AutoRound"},
    {"fp_quant", "FP-Quant"},
    {"marlin", "Marlin"},
};

// Last parts of tensor names that no supported format has.
constexpr Named kTensors[] = {
    {".q_weight", "EXL2"},    {".q_invperm", "EXL2"},
    {".trellis", "EXL3"},     {".suh", "EXL3"},
    {".W_q", "HQQ"},          {".codebooks", "AQLM"},
    {".codes", "AQLM"},       {".absmax", "bitsandbytes"},
    {".SCB", "bitsandbytes"}, {".Qidxs", "QuIP#"},
    {".B", "Marlin"},
};

}  // namespace

std::string NameOfForeignMethod(std::string_view quant_method) {
  for (const Named& method : kMethods) {
    if (method.key == quant_method) return std::string(method.name);
  }
  return std::string(quant_method.substr(0, 80));
}

std::string_view ForeignFormatOfTensor(std::string_view name) {
  for (const Named& tensor : kTensors) {
    if (name.ends_with(tensor.key)) return tensor.name;
  }
  return "";
}

absl::Status UnsupportedFormat(const std::string& file, const std::string& tensor,
                               std::string_view format) {
  return InvalidError(
      "UNSUPPORTED_TENSOR_TYPE",
      file + ": tensor \"" + tensor.substr(0, 200) + "\" is stored as " + std::string(format) +
          ", which is not decoded (docs/formats/weights.md lists what is); capture the model with "
          "the engine that serves it (client/python has a writer) and give the capture's folder in "
          "place of the model");
}

}  // namespace assay
