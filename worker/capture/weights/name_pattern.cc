#include "worker/capture/weights/name_pattern.h"

#include "storage/base/status.h"

namespace assay {

absl::StatusOr<NamePattern> NamePattern::Expression(std::string_view text, std::string_view where) {
  const auto bad = [&](const std::string& why) {
    return InvalidError("FIELD_INVALID", std::string(where) + ": the pattern \"" +
                                             std::string(text.substr(0, 100)) + "\" " + why);
  };
  if (text.size() > kNamePatternMax) return bad("is too long");
  NamePattern out;
  out.expression_ = true;
  try {
    // The polynomial matcher does not backtrack: a hostile pattern cannot stall it.
    out.regex_ = std::regex(text.begin(), text.end(),
                            std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    return bad(std::string("is no regular expression: ") + error.what());
  }
  return out;
}

absl::StatusOr<NamePattern> NamePattern::Parse(std::string_view text, std::string_view where) {
  if (text.starts_with("re:")) return Expression(text.substr(3), where);
  NamePattern out;
  out.name_ = std::string(text);
  return out;
}

bool NamePattern::Matches(std::string_view name) const {
  if (!expression_) return name == name_;
  return std::regex_search(name.begin(), name.end(), regex_,
                           std::regex_constants::match_continuous);
}

}  // namespace assay
