#include "storage/vllm/out_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "storage/base/bf16.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/temporary_file.h"

namespace assay {
namespace {

absl::Status CheckFinite(int64_t index, std::span<const float> rows, uint64_t width) {
  const auto bad =
      std::find_if(rows.begin(), rows.end(), [](float value) { return !std::isfinite(value); });
  if (bad == rows.end()) return absl::OkStatus();
  const auto at = static_cast<uint64_t>(bad - rows.begin());
  return InvalidError("NON_FINITE_HIDDEN",
                      "context " + std::to_string(index) + ", position " +
                          std::to_string(at / width) + ", column " + std::to_string(at % width) +
                          ": the hidden state is " + (std::isnan(*bad) ? "nan" : "infinite") +
                          "; the engine or the checkpoint is broken there, or the value too large "
                          "for what is stored (--store keep)");
}

// The file of float32 rows, as `store` says.
absl::StatusOr<std::string> FileBytes(int64_t index, std::span<const float> rows, uint64_t width,
                                      HiddenStore store) {
  ASSAY_RETURN_IF_ERROR(CheckFinite(index, rows, width));
  const uint64_t count = rows.size() / width;
  if (store == HiddenStore::kBf16) {
    std::vector<uint16_t> bits(rows.size());
    std::transform(rows.begin(), rows.end(), bits.begin(), FloatToBf16);
    std::vector<float> rounded(rows.size());
    std::transform(bits.begin(), bits.end(), rounded.begin(), Bf16ToFloat);
    ASSAY_RETURN_IF_ERROR(CheckFinite(index, rounded, width));
    return BuildHiddenFile(bits, count, width);
  }
  SafetensorsBuilder builder;
  builder.Add(std::string(kHiddenTensorName), DType::kF32, {count, width},
              {reinterpret_cast<const uint8_t*>(rows.data()), rows.size_bytes()});
  return builder.Build();
}

}  // namespace

std::string_view HiddenStoreName(HiddenStore store) {
  switch (store) {
    case HiddenStore::kKeep:
      return "keep";
    case HiddenStore::kBf16:
      return "bf16";
    case HiddenStore::kF32:
      break;
  }
  return "f32";
}

VllmOutFolder::VllmOutFolder(std::string dir, const Suite& suite, const CaptureWriterInfo& info,
                             HiddenStore store, int lock)
    : dir_(std::move(dir)),
      suite_(suite),
      info_(info),
      store_(store),
      lock_(lock),
      start_ms_(Clock::Real()->MonotonicMillis()) {}

VllmOutFolder::~VllmOutFolder() { close(lock_); }

absl::StatusOr<std::unique_ptr<VllmOutFolder>> VllmOutFolder::Open(const std::string& dir,
                                                                   const Suite& suite,
                                                                   const CaptureWriterInfo& info,
                                                                   HiddenStore store) {
  ASSAY_ASSIGN_OR_RETURN(const std::vector<size_t> selected, SelectContexts(suite, info.filter));
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(dir));
  const int lock = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0) return ErrnoError(errno, dir);
  std::unique_ptr<VllmOutFolder> folder(new VllmOutFolder(dir, suite, info, store, lock));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return UnavailableError("OUT_BUSY", dir + ": another process writes there; wait for it");
  }
  ASSAY_RETURN_IF_ERROR(RemoveTemporaries(dir));  // of an earlier import that was killed
  for (const size_t position : selected) {
    folder->wanted_.push_back(suite.contexts[position].index);
  }
  ASSAY_RETURN_IF_ERROR(folder->Adopt());
  return folder;
}

Json VllmOutFolder::ManifestNow(bool complete) const {
  CaptureWriterInfo info = info_;
  info.elapsed_sec = static_cast<double>(Clock::Real()->MonotonicMillis() - start_ms_) / 1000.0;
  std::vector<CaptureRecord> records;
  for (const auto& [index, record] : records_) records.push_back(record);
  return BuildCaptureManifest(suite_, info, records, complete);
}

// Keeps a file of an earlier run if it is there and whole; otherwise its context is made again.
void VllmOutFolder::KeepIfWhole(const CaptureRecord& record) {
  const std::string path = JoinPath(dir_, HiddenFileName(record.index));
  if (std::find(wanted_.begin(), wanted_.end(), record.index) == wanted_.end()) return;
  const auto digest = Sha256File(path);
  if (!digest.ok() || *digest != record.sha256) return;
  const auto file = SafetensorsFile::Open(path);
  const auto rows = static_cast<uint64_t>(suite_.context_length) - 1;
  if (!file.ok() || !CheckHiddenFile(**file, rows, record.width).ok()) return;
  records_[record.index] = record;
}

absl::Status VllmOutFolder::Adopt() {
  const std::string path = JoinPath(dir_, kCaptureManifestName);
  if (!FileExists(path)) {
    ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(dir_));
    if (names.empty()) return WriteManifest().status();
    return PreconditionError("CAPTURE_OUT_OCCUPIED",
                             JoinPath(dir_, names[0]) +
                                 " is in the way: without capture-manifest.json the folder is no "
                                 "capture to continue; choose an empty --out");
  }
  ASSAY_ASSIGN_OR_RETURN(const CaptureManifest earlier, ReadCaptureManifest(dir_));
  const Json fresh = ManifestNow(false);
  if (earlier.json.value("capture_contract_sha256", Json()) !=
      fresh.at("capture_contract_sha256")) {
    return PreconditionError("CAPTURE_OUT_OCCUPIED",
                             path +
                                 " is of another capture (its suite, filter, cut, engine, --store "
                                 "or model files differ); choose another --out or delete the "
                                 "folder");
  }
  for (const CaptureRecord& record : earlier.records) KeepIfWhole(record);
  return absl::OkStatus();
}

absl::Status VllmOutFolder::Add(int64_t index, std::span<const float> rows, uint64_t width) {
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, FileBytes(index, rows, width, store_));
  CaptureRecord record;
  record.index = index;
  record.sha256 = Sha256Hex(bytes);
  record.rows = rows.size() / width;
  record.width = width;
  if (!records_.empty() && records_.begin()->second.width != width) {
    return InvalidError("SHAPE_MISMATCH", "context " + std::to_string(index) + ": hidden size " +
                                              std::to_string(width) +
                                              ", the contexts before it have " +
                                              std::to_string(records_.begin()->second.width) +
                                              "; one capture has one of each");
  }
  const auto earlier = records_.find(index);
  if (earlier == records_.end()) {
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(dir_, HiddenFileName(index)), bytes));
    records_[index] = record;
    return absl::OkStatus();
  }
  if (earlier->second.sha256 == record.sha256) return absl::OkStatus();
  return InvalidError("CONTEXT_DIFFERS",
                      "context " + std::to_string(index) +
                          " is stored already with other bytes: two files of the same tokens have "
                          "different states; remove one of them, and look at the engine's noise");
}

absl::StatusOr<bool> VllmOutFolder::WriteManifest() {
  const bool complete = records_.size() == wanted_.size();
  manifest_ = ManifestNow(complete);
  ASSAY_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(dir_, kCaptureManifestName), PythonPrettyJson(manifest_) + "\n"));
  return complete;
}

}  // namespace assay
