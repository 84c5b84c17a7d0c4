// The tensors of a Hugging Face folder, whatever files they lie in.

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_HF_TENSORS_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_HF_TENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/format/model_files.h"
#include "storage/format/safetensors.h"

namespace assay {

class HfTensors {
 public:
  // Opens every weight file. Where an index says which file holds a tensor, only that file counts.
  static absl::StatusOr<HfTensors> Open(const ModelFiles& files);

  struct Place {
    const TensorView* view = nullptr;  // null: the index names a file that does not hold it
    std::string file;                  // path
  };
  const std::map<std::string, Place, std::less<>>& places() const { return places_; }
  const TensorView* Find(std::string_view name) const;  // null when absent
  std::string FileOf(std::string_view name) const;      // the folder when unknown
  uint64_t file_bytes() const { return file_bytes_; }
  // Keeps the tensors alive.
  const std::vector<std::shared_ptr<const SafetensorsFile>>& files() const { return files_; }

 private:
  std::string root_;
  std::vector<std::shared_ptr<const SafetensorsFile>> files_;
  std::map<std::string, Place, std::less<>> places_;
  uint64_t file_bytes_ = 0;
};

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_HF_TENSORS_H_
