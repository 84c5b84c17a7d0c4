// How quantization configurations name modules: "model.layers.0.mlp.up_proj", "re:.*down_proj$", or
// a class such as "Linear".

#ifndef ASSAY_WORKER_CAPTURE_WEIGHTS_NAME_PATTERN_H_
#define ASSAY_WORKER_CAPTURE_WEIGHTS_NAME_PATTERN_H_

#include <regex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay {

// Longer patterns are refused: the compiled form grows with them.
inline constexpr size_t kNamePatternMax = 2000;

class NamePattern {
 public:
  // "re:PATTERN" matches as Python's re.match does (from the start of the name, not to its end);
  // anything else is a name. FIELD_INVALID with `where` for a pattern that is too long or that
  // ECMAScript's grammar, which agrees with Python's on what such lists use, does not know.
  // Matching takes polynomial time whatever the pattern.
  static absl::StatusOr<NamePattern> Parse(std::string_view text, std::string_view where);
  // Without the prefix: always an expression.
  static absl::StatusOr<NamePattern> Expression(std::string_view text, std::string_view where);

  bool Matches(std::string_view name) const;
  bool IsExpression() const { return expression_; }

 private:
  bool expression_ = false;
  std::string name_;
  std::regex regex_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_CAPTURE_WEIGHTS_NAME_PATTERN_H_
