// Tensors: headers and digests of every captured file and of the head.

#include <algorithm>
#include <cctype>
#include <cstring>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/dataset/tree.h"
#include "storage/dataset/verify.h"
#include "storage/format/safetensors.h"

namespace assay {
namespace {

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string Digest(std::span<const uint8_t> bytes) {
  return Sha256Hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// The bytes behind the header of a file that was opened as safetensors.
std::span<const uint8_t> Payload(std::span<const uint8_t> file) {
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  return file.subspan(8 + header);
}

class TensorFile {
 public:
  // Why the file can't be read, or "".
  std::string Open(const std::string& path, const std::string& name,
                   const std::vector<std::string>& keys) {
    const auto mapped = MappedFile::Open(path);
    if (!mapped.ok()) return MessageOf(mapped.status());
    bytes_ = *mapped;
    const auto file = SafetensorsFile::Parse(bytes_->bytes(), name);
    if (!file.ok()) return MessageOf(file.status());
    file_ = *file;
    for (const std::string& key : keys) {
      const auto tensor = file_->Find(key);
      if (!tensor.ok()) continue;
      tensor_ = *tensor;
      return "";
    }
    return name + ": no tensor " + keys.front();
  }

  const TensorView& tensor() const { return tensor_; }
  std::span<const uint8_t> bytes() const { return bytes_->bytes(); }

 private:
  std::shared_ptr<const MappedFile> bytes_;
  std::shared_ptr<const SafetensorsFile> file_;
  TensorView tensor_;
};

// True when the file could be read, whatever its digests.
bool CheckRecordFile(const std::string& path, const std::string& name, const Json& record,
                     Findings* findings) {
  const auto add = [&](const char* code, std::string message) {
    findings->errors.push_back({code, "SEAL-1(d)", std::move(message)});
  };
  TensorFile file;
  const std::string why = file.Open(path, name, {DatasetText(DatasetMember(record, {"key"}))});
  if (!why.empty()) {
    add("bad_tensor_file", why);
    return false;
  }
  if (DTypeName(file.tensor().dtype) != Upper(DatasetText(DatasetMember(record, {"dtype"})))) {
    add("tensor_mismatch", name + ": another dtype than its record states");
  }
  if (DatasetMember(record, {"shape"}) != Json(file.tensor().shape)) {
    add("tensor_mismatch", name + ": another shape than its record states");
  }
  const auto digest = [&](const char* key, std::span<const uint8_t> bytes, const char* what) {
    if (DatasetMember(record, {key}) == Digest(bytes)) return;
    add("tensor_mismatch", name + ": another " + what + " than its record states");
  };
  digest("tensor_content_sha256", file.tensor().bytes, "tensor");
  digest("payload_sha256", Payload(file.bytes()), "payload");
  digest("sha256", file.bytes(), "file");
  return true;
}

}  // namespace

int64_t CheckTensors(const DatasetDocuments& documents, Findings* findings) {
  int64_t looked_at = 0;
  for (const Json& record : documents.capture.at("records")) {
    const std::string file = DatasetText(DatasetMember(record, {"file"}));
    if (!IsDatasetPath(file, "capture", false)) continue;  // said with the paths
    const std::string name = ResolveDatasetPath(file, "capture");
    const auto path = FindInDataset(documents.root, name);
    if (path && CheckRecordFile(*path, name, record, findings)) ++looked_at;
  }
  const Json& head = DatasetMember(documents.manifest, {"head"});
  const Json& file = DatasetMember(head, {"file"});
  const auto path =
      file.is_string() ? FindInDataset(documents.root, file.get<std::string>()) : std::nullopt;
  if (!path) return looked_at;
  TensorFile payload;
  const std::string why =
      payload.Open(*path, file.get<std::string>(),
                   {DatasetText(DatasetMember(head, {"tensor_key"})), "lm_head.weight", "weight"});
  if (!why.empty()) {
    findings->errors.push_back({"bad_tensor_file", "HEAD-IDENT", why});
  } else if (DatasetMember(head, {"tensor_content_sha256"}) != Digest(payload.tensor().bytes)) {
    findings->errors.push_back(
        {"tensor_mismatch", "HEAD-IDENT",
         file.get<std::string>() + ": another tensor than head.tensor_content_sha256 states"});
  }
  return looked_at;
}

}  // namespace assay
