#include "worker/capture/taps.h"

#include <charconv>
#include <cstdio>
#include <cstring>

#include "storage/base/json.h"
#include "storage/base/status.h"

namespace assay::capture {
namespace {

absl::Status Unknown(std::string_view name, int64_t layers) {
  return InvalidError("UNKNOWN_TAP",
                      "tap \"" + std::string(name) +
                          "\": use embedding, final_norm, or layers.N.attn, layers.N.mlp, "
                          "layers.N.residual with N from 0 to " +
                          std::to_string(layers - 1));
}

}  // namespace

absl::StatusOr<TapPoint> ParseTap(std::string_view name, int64_t layers) {
  if (name == "embedding") return TapPoint{TapKind::kEmbedding, 0};
  if (name == "final_norm") return TapPoint{TapKind::kFinalNorm, 0};
  constexpr std::string_view kPrefix = "layers.";
  if (!name.starts_with(kPrefix)) return Unknown(name, layers);
  const char* const end = name.data() + name.size();
  TapPoint point;
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, point.layer);
  if (error != std::errc() || point.layer < 0 || point.layer >= layers) {
    return Unknown(name, layers);
  }
  const std::string_view part(rest, size_t(end - rest));
  if (part == ".attn") {
    point.kind = TapKind::kAttention;
  } else if (part == ".mlp") {
    point.kind = TapKind::kMlp;
  } else if (part == ".residual") {
    point.kind = TapKind::kResidual;
  } else {
    return Unknown(name, layers);
  }
  if (TapName(point) != name) return Unknown(name, layers);  // "layers.007.mlp"
  return point;
}

std::string TapName(const TapPoint& point) {
  const std::string layer = "layers." + std::to_string(point.layer);
  switch (point.kind) {
    case TapKind::kEmbedding:
      return "embedding";
    case TapKind::kAttention:
      return layer + ".attn";
    case TapKind::kMlp:
      return layer + ".mlp";
    case TapKind::kResidual:
      return layer + ".residual";
    case TapKind::kFinalNorm:
      return "final_norm";
  }
  return "";
}

std::string TapFileName(const TapPoint& point, int64_t index) {
  char number[32];
  std::snprintf(number, sizeof number, "%04lld", static_cast<long long>(index));
  return "tap_" + TapName(point) + "_" + number + ".safetensors";
}

std::string BuildTapFile(const TapPoint& point, int64_t index, std::span<const float> values,
                         uint64_t rows, uint64_t width) {
  Json header;
  header["__metadata__"] = {{"tap", TapName(point)}, {"context", std::to_string(index)}};
  header["tap"] = {
      {"dtype", "F32"}, {"shape", {rows, width}}, {"data_offsets", {0, values.size_bytes()}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string file(sizeof length + text.size() + values.size_bytes(), '\0');
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, text.data(), text.size());
  std::memcpy(file.data() + sizeof length + text.size(), values.data(), values.size_bytes());
  return file;
}

}  // namespace assay::capture
