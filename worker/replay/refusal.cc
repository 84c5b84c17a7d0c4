#include "worker/replay/refusal.h"

#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr const char* kPayload = "assay.replay.refusal";

// Fields divided by newlines, an absent number empty; ids hold no newline that matters (the operand
// is last).
std::string Encode(const ReplayRefusal& r) {
  const auto number = [](const std::optional<int64_t>& v) { return v ? std::to_string(*v) : ""; };
  return r.reason + "\n" + number(r.context) + "\n" + number(r.position) + "\n" + number(r.column) +
         "\n" + r.operand;
}

std::optional<int64_t> Number(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return std::stoll(text);  // written by Encode
}

}  // namespace

absl::Status Refuse(const ReplayRefusal& refusal, std::string_view what) {
  std::string where;
  const auto add = [&](const char* name, const std::string& value) {
    where += (where.empty() ? "" : ", ") + std::string(name) + " " + value;
  };
  if (!refusal.operand.empty()) add("operand", "\"" + refusal.operand + "\"");
  if (refusal.context) add("context", std::to_string(*refusal.context));
  if (refusal.position) add("position", std::to_string(*refusal.position));
  if (refusal.column) add("column", std::to_string(*refusal.column));
  absl::Status status = InvalidError(refusal.reason, where + ": " + std::string(what));
  status.SetPayload(kPayload, absl::Cord(Encode(refusal)));
  return status;
}

std::optional<ReplayRefusal> RefusalOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  std::vector<std::string> parts;
  size_t at = 0;
  while (parts.size() < 4) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) return std::nullopt;
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return ReplayRefusal{parts[0], text.substr(at), Number(parts[1]), Number(parts[2]),
                       Number(parts[3])};
}

}  // namespace assay
