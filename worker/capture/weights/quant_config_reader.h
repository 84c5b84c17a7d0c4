// Reading a quantization_config, one method after the other; used by QuantConfig only.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_QUANT_CONFIG_READER_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_QUANT_CONFIG_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "storage/base/json_fields.h"
#include "worker/capture/weights/quant_config.h"

namespace assay {

class QuantConfigReader {
 public:
  // `out.method_` is set; all three outlive the reader.
  QuantConfigReader(const JsonFields& fields, const Json& json, QuantConfig& out)
      : fields_(fields), json_(json), out_(out) {}
  absl::Status Read();

 private:
  absl::Status ReadCompressedTensors();
  absl::Status ReadGroup(const std::string& name, const Json& json, const std::string& format);
  absl::Status ReadGroupWeights(const JsonFields& weights, QuantScheme& scheme);
  absl::StatusOr<ScaleBlock> BlockSize(const JsonFields& fields, const Json& sizes,
                                       std::string_view key) const;
  absl::Status ReadTargets(const Json& list, std::string_view key, std::vector<NamePattern>* names,
                           std::vector<std::string>* classes);
  absl::Status ReadFp8();
  absl::Status ReadGptq();
  absl::Status ReadGptqDynamic(const QuantScheme& base);
  absl::StatusOr<GptqScheme> ReadGptqScheme(const JsonFields& fields, const GptqScheme* base);
  absl::Status ReadAwq();
  absl::Status ReadModelOpt();

  void Everything(QuantScheme scheme);  // one group that targets all modules
  absl::StatusOr<uint64_t> GroupSize(const JsonFields& fields, std::string_view key) const;
  absl::StatusOr<int> Bits(const JsonFields& fields, std::string_view key,
                           const std::vector<int64_t>& allowed) const;

  const JsonFields& fields_;
  const Json& json_;
  QuantConfig& out_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_QUANT_CONFIG_READER_H_
