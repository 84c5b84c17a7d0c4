#include "storage/format/model_spec.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr std::string_view kRtn = "rtn:";

absl::Status Bad(std::string_view text, const std::string& why) {
  return InvalidError("TRANSFORM_INVALID",
                      "weight transform \"" + std::string(text) + "\": " + why +
                          "; write rtn:bits=B,group=N|channel with B from 2 to 8, such as "
                          "rtn:bits=4,group=32 or rtn:bits=8,group=channel");
}

// A word, perhaps with arguments: "awq", "rtn", "gptq:bits=4".
bool LooksLikeTransform(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  return !name.empty() && text.find('/') == std::string_view::npos &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

// Digits only, without sign or leading zero.
std::optional<uint64_t> ParseCount(std::string_view text, uint64_t max) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text[0] == '0' || value > max)
    return std::nullopt;
  return value;
}

}  // namespace

std::string RtnTransform::Canonical() const {
  return "rtn:bits=" + std::to_string(bits) +
         ",group=" + (group == 0 ? std::string("channel") : std::to_string(group));
}

absl::StatusOr<RtnTransform> ParseRtnTransform(std::string_view text) {
  if (text.substr(0, kRtn.size()) != kRtn) return Bad(text, "unknown name");
  std::optional<int> bits;
  std::optional<uint64_t> group;
  std::string_view rest = text.substr(kRtn.size());
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    if (item.substr(0, 5) == "bits=" && !bits) {
      const auto value = ParseCount(item.substr(5), kRtnBitsMax);
      if (!value || *value < static_cast<uint64_t>(kRtnBitsMin)) return Bad(text, "invalid bits");
      bits = static_cast<int>(*value);
    } else if (item.substr(0, 6) == "group=" && !group) {
      const std::string_view size = item.substr(6);
      const auto value =
          size == "channel" ? std::optional<uint64_t>(0) : ParseCount(size, kRtnGroupMax);
      if (!value) return Bad(text, "invalid group");
      group = *value;
    } else {
      return Bad(text, "unknown or repeated argument \"" + std::string(item) + "\"");
    }
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  if (!bits) return Bad(text, "bits is missing");
  return RtnTransform{*bits, group.value_or(0)};
}

absl::Status MissingModelError(const std::string& path) {
  const size_t at = path.rfind('@');
  const std::string before = path.substr(0, at);
  if (at != std::string::npos && at > 0 && LooksLikeTransform(path.substr(at + 1)) &&
      FileExists(before)) {
    return Bad(path.substr(at + 1),
               "there is " + before + " but no " + path + ", and no transform of this name");
  }
  return NotFoundError("MODEL_MISSING", path + ": there is no such file or folder; check the path");
}

absl::StatusOr<ModelSpec> ParseModelSpec(std::string_view text) {
  ModelSpec spec{std::string(text), ""};
  const size_t at = text.rfind("@rtn:");
  if (at != std::string_view::npos) {
    ASSAY_ASSIGN_OR_RETURN(const RtnTransform transform, ParseRtnTransform(text.substr(at + 1)));
    spec = {std::string(text.substr(0, at)), transform.Canonical()};
  }
  if (spec.path.empty()) {
    return InvalidError("MODEL_SPEC_INVALID", "model \"" + std::string(text) +
                                                  "\" names no path; write PATH or PATH@TRANSFORM");
  }
  return spec;
}

}  // namespace assay
