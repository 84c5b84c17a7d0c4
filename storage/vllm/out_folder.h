// A capture directory of another engine's states in the making: the form that assay.CaptureWriter
// of the Python package writes, and either continues what the other has begun.

#ifndef ASSAY_STORAGE_VLLM_OUT_FOLDER_H_
#define ASSAY_STORAGE_VLLM_OUT_FOLDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/format/capture.h"
#include "storage/format/suite.h"

namespace assay {

// What is stored of float32 states.
enum class HiddenStore { kKeep, kBf16, kF32 };
std::string_view HiddenStoreName(HiddenStore store);  // "keep", "bf16", "f32"

// Held by one process at a time, by a lock on the folder. Not thread-safe.
class VllmOutFolder {
 public:
  // Makes `dir`, or continues the capture in it: contexts whose file has the recorded digest are
  // kept. `suite` and `info` outlive the object; info.filter and info.cut_point are set.
  // CAPTURE_OUT_OCCUPIED when the folder holds something else, OUT_BUSY.
  static absl::StatusOr<std::unique_ptr<VllmOutFolder>> Open(const std::string& dir,
                                                             const Suite& suite,
                                                             const CaptureWriterInfo& info,
                                                             HiddenStore store);
  ~VllmOutFolder();
  VllmOutFolder(const VllmOutFolder&) = delete;
  VllmOutFolder& operator=(const VllmOutFolder&) = delete;

  const std::vector<int64_t>& wanted() const { return wanted_; }  // indices of the filter
  bool Has(int64_t index) const { return records_.count(index) != 0; }

  // Stores rows [context_length - 1, width] of one wanted context, rounded as `store` says.
  // NON_FINITE_HIDDEN, SHAPE_MISMATCH (another width than before); CONTEXT_DIFFERS when the context
  // is there with other bytes.
  absl::Status Add(int64_t index, std::span<const float> rows, uint64_t width);

  // Writes the manifest of what is stored: complete when every context of the filter is. Then true.
  absl::StatusOr<bool> WriteManifest();
  const Json& manifest() const { return manifest_; }

 private:
  VllmOutFolder(std::string dir, const Suite& suite, const CaptureWriterInfo& info,
                HiddenStore store, int lock);
  absl::Status Adopt();
  void KeepIfWhole(const CaptureRecord& record);
  Json ManifestNow(bool complete) const;

  const std::string dir_;
  const Suite& suite_;
  const CaptureWriterInfo& info_;
  const HiddenStore store_;
  const int lock_;
  const int64_t start_ms_;
  std::vector<int64_t> wanted_;
  std::map<int64_t, CaptureRecord> records_;
  Json manifest_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_VLLM_OUT_FOLDER_H_
