// Quantization formats that are known by name and not decoded, and the one way to refuse a tensor.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_FOREIGN_FORMATS_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_FOREIGN_FORMATS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace assay {

// The usual name of a quant_method that is not decoded, or the word itself.
std::string NameOfForeignMethod(std::string_view quant_method);

// The format that a tensor of this name belongs to by its last part ("X.q_weight": EXL2), or "".
std::string_view ForeignFormatOfTensor(std::string_view name);

// UNSUPPORTED_TENSOR_TYPE: names the tensor and the format, lists what is decoded and says what to
// do instead.
absl::Status UnsupportedFormat(const std::string& file, const std::string& tensor,
                               std::string_view format);

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_FOREIGN_FORMATS_H_
