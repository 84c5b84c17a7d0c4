// What a Hugging Face config.json says about quantization (quantization_config).
//
// It gives the numbers that tensors alone do not tell (bits, symmetry, block sizes, rule of GPTQ's
// zeros) and which modules it covers. Whether a module is packed is told by its tensors.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_QUANT_CONFIG_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_QUANT_CONFIG_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "worker/capture/weights/gptq.h"
#include "worker/capture/weights/name_pattern.h"
#include "worker/capture/weights/pack_quantized.h"

namespace assay {

struct QuantScheme {
  // compressed-tensors' format ("pack-quantized", "nvfp4-pack-quantized", ...), else "fp8", "gptq",
  // "awq", "modelopt" or "mxfp4".
  std::string format;
  IntegerScheme integer = {};  // of integer formats; `block` of every format that has a choice
  GptqScheme gptq = {};        // gptq; `group` also of awq
  bool needs_index = false;    // gptq with activation order
};

class QuantConfig {
 public:
  // Without a quantization_config: an empty configuration. FIELD_MISSING, FIELD_INVALID,
  // QUANTIZATION_INVALID (bits or groups out of range), UNSUPPORTED_MODEL_FEATURE (a known method
  // with a part that changes the forward pass). A method that is known and not decoded is no error
  // here: see foreign().
  static absl::StatusOr<QuantConfig> Parse(const Json& config, std::string_view where);

  bool present() const { return !method_.empty(); }
  const std::string& method() const { return method_; }  // quant_method; "" without one
  // The name of a method that is not decoded ("bitsandbytes"), else "".
  const std::string& foreign() const { return foreign_; }

  // How `module` is packed, null when it is ignored or no group targets it. A list may name the
  // fused module of an engine ("qkv_proj", "gate_up_proj") for its parts.
  const QuantScheme* SchemeOf(std::string_view module) const;

 private:
  struct Group {
    std::vector<NamePattern> names;    // of modules
    std::vector<std::string> classes;  // "Linear"
    QuantScheme scheme;
  };
  friend class QuantConfigReader;

  std::string method_, foreign_;
  std::vector<NamePattern> ignore_;
  std::vector<std::string> ignored_classes_;
  std::vector<Group> groups_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_QUANT_CONFIG_H_
