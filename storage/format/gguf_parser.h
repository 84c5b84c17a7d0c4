// The checked reading of a GGUF header; used by GgufFile only.

#ifndef ASSAY_STORAGE_FORMAT_GGUF_PARSER_H_
#define ASSAY_STORAGE_FORMAT_GGUF_PARSER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/format/gguf.h"

namespace assay {

class GgufParser {
 public:
  // `bytes` is the whole file; results go to `file`. Both outlive the parser.
  GgufParser(std::span<const uint8_t> bytes, GgufFile& file) : bytes_(bytes), file_(file) {}
  absl::Status Run();

 private:
  struct PendingTensor {
    uint64_t offset = 0;  // relative to the data section
    uint64_t bytes = 0;
  };

  absl::Status Bad(const std::string& why) const;
  template <typename T>
  absl::StatusOr<T> Read(const std::string& what);
  absl::StatusOr<std::string_view> ReadString(const std::string& what, uint64_t max_bytes);
  absl::StatusOr<GgufValue> ReadValue(GgufType type, const std::string& key);
  absl::StatusOr<GgufValue> ReadArray(const std::string& key, uint64_t depth);
  absl::Status ReadKeyValue();
  absl::Status ReadAlignment();
  absl::StatusOr<PendingTensor> ReadTensorInfo();
  absl::Status CheckNotCut(uint64_t data, const std::vector<PendingTensor>& pending);
  absl::Status PlaceTensors(const std::vector<PendingTensor>& pending);

  std::span<const uint8_t> bytes_;
  GgufFile& file_;
  uint64_t at_ = 0;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_GGUF_PARSER_H_
