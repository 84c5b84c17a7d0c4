#include "storage/vllm/extracted_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/base/bf16.h"
#include "storage/base/f16.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr std::string_view kStates = "hidden_states", kTokens = "token_ids";

std::string ShapeText(const TensorView& tensor) {
  std::string text;
  for (const uint64_t size : tensor.shape)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

absl::StatusOr<TensorView> Find(const SafetensorsFile& file, std::string_view name) {
  if (file.Has(name)) return file.Find(name);
  std::string names;
  for (const TensorView& tensor : file.tensors())
    names += (names.empty() ? "" : ", ") + tensor.name;
  return NotFoundError("TENSOR_MISSING", file.path() + ": no tensor " + std::string(name) +
                                             " (it has " + names.substr(0, 200) +
                                             "); is it a file of vLLM's hidden-state extractor?");
}

template <typename T>
std::vector<int64_t> ReadIds(const TensorView& tensor) {
  std::vector<int64_t> ids(tensor.elements());
  for (size_t i = 0; i < ids.size(); ++i) {
    T id;
    std::memcpy(&id, tensor.bytes.data() + i * sizeof(T), sizeof(T));
    ids[i] = id;
  }
  return ids;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32;
}

// Which axis of `states` counts the `count` tokens.
absl::StatusOr<VllmAxes> FindAxes(const std::string& path, const TensorView& states, uint64_t count,
                                  std::optional<VllmAxes> asked) {
  const bool first = states.shape[0] == count, second = states.shape[1] == count;
  if (!asked && first && second) {
    return InvalidError("AXES_AMBIGUOUS",
                        path + ": " + std::to_string(count) + " tokens and " +
                            std::to_string(count) +
                            " layers, so the shape does not say which axis is which; give --axes "
                            "tokens-first (vLLM since the connector writes asynchronously) or "
                            "layers-first (before)");
  }
  const VllmAxes axes = asked.value_or(first ? VllmAxes::kTokensFirst : VllmAxes::kLayersFirst);
  if (axes == VllmAxes::kTokensFirst ? first : second) return axes;
  return InvalidError("SHAPE_MISMATCH", path + ": hidden_states " + ShapeText(states) + " is not " +
                                            std::string(VllmAxesName(axes)) + " for " +
                                            std::to_string(count) + " tokens");
}

}  // namespace

std::string_view VllmAxesName(VllmAxes axes) {
  return axes == VllmAxes::kTokensFirst ? "tokens-first" : "layers-first";
}

absl::StatusOr<VllmExtractedFile> VllmExtractedFile::Open(const std::string& path,
                                                          std::optional<VllmAxes> axes) {
  VllmExtractedFile out;
  ASSAY_ASSIGN_OR_RETURN(out.file_, SafetensorsFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(out.states_, Find(*out.file_, kStates));
  ASSAY_ASSIGN_OR_RETURN(const TensorView ids, Find(*out.file_, kTokens));
  const TensorView& states = out.states_;
  if (!IsFloat(states.dtype) || (ids.dtype != DType::kI64 && ids.dtype != DType::kI32)) {
    return InvalidError("DTYPE_UNSUPPORTED",
                        path + ": hidden_states " + std::string(DTypeName(states.dtype)) +
                            " and token_ids " + std::string(DTypeName(ids.dtype)) +
                            "; BF16, F16 or F32 and I64 or I32 can be read");
  }
  const bool counted = ids.shape.size() == 1 && states.shape.size() == 3 &&
                       (states.shape[0] == ids.shape[0] || states.shape[1] == ids.shape[0]);
  if (!counted) {
    return InvalidError("SHAPE_MISMATCH",
                        path + ": hidden_states " + ShapeText(states) + " with token_ids " +
                            ShapeText(ids) +
                            "; [tokens, layers, hidden] and [tokens] belong together (a prompt "
                            "computed in chunks is cut short: switch chunked prefill off)");
  }
  ASSAY_ASSIGN_OR_RETURN(out.axes_, FindAxes(path, states, ids.shape[0], axes));
  out.layers_ = states.shape[out.axes_ == VllmAxes::kTokensFirst ? 1 : 0];
  out.width_ = states.shape[2];
  out.tokens_ = ids.dtype == DType::kI64 ? ReadIds<int64_t>(ids) : ReadIds<int32_t>(ids);
  return out;
}

std::vector<float> VllmExtractedFile::Rows(uint64_t layer, uint64_t count) const {
  const uint64_t item = DTypeBytes(states_.dtype);
  std::vector<float> rows(count * width_);
  for (uint64_t t = 0; t < count; ++t) {
    const uint64_t row =
        axes_ == VllmAxes::kTokensFirst ? t * layers_ + layer : layer * tokens_.size() + t;
    const uint8_t* from = states_.bytes.data() + row * width_ * item;
    float* to = rows.data() + t * width_;
    if (states_.dtype == DType::kF32) {
      std::memcpy(to, from, width_ * item);
      continue;
    }
    for (uint64_t i = 0; i < width_; ++i) {
      uint16_t bits;
      std::memcpy(&bits, from + i * item, item);
      to[i] = states_.dtype == DType::kBF16 ? Bf16ToFloat(bits) : F16ToFloat(bits);
    }
  }
  return rows;
}

absl::StatusOr<std::vector<std::string>> ListVllmFiles(const std::string& folder) {
  if (!IsDirectory(folder)) {
    return NotFoundError("FILE_MISSING", folder +
                                             ": there is no such folder; give vLLM's "
                                             "shared_storage_path");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors.zst")) {
      return InvalidError("DTYPE_UNSUPPORTED", JoinPath(folder, name) +
                                                   ": compressed; unpack the files with `zstd -d` "
                                                   "first");
    }
    if (name.ends_with(".safetensors")) files.push_back(JoinPath(folder, name));
  }
  if (files.empty()) {
    return NotFoundError("FILE_MISSING", folder +
                                             ": holds no *.safetensors; give vLLM's "
                                             "shared_storage_path");
  }
  return files;
}

absl::Status CheckVllmFileFinished(const std::string& path) {
  const std::string lock = path + ".lock";
  const int fd = open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? absl::OkStatus() : ErrnoError(errno, lock);
  const bool busy = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  if (!busy) return absl::OkStatus();
  return PreconditionError("FILE_BUSY",
                           path + ": vLLM still writes it; wait until the engine is done");
}

}  // namespace assay
