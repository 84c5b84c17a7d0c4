#include "storage/format/token_list.h"

#include <charconv>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/suite.h"

namespace assay {
namespace {

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  absl::Status Bad(const std::string& why) const {
    return InvalidError("SUITE_INVALID",
                        path_ + ": at byte " + std::to_string(at_) + ": " + why +
                            "; a token file is a list of integers, fetch it again");
  }

  void SkipBlanks() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != text_.npos) ++at_;
  }

  // Consumes `c` when it is next.
  bool Take(char c) {
    SkipBlanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool AtEnd() {
    SkipBlanks();
    return at_ == text_.size();
  }

  absl::StatusOr<int32_t> Integer() {
    SkipBlanks();
    const size_t begin = at_;
    if (at_ < text_.size() && text_[at_] == '-') ++at_;
    const size_t digits = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == digits || (text_[digits] == '0' && at_ - digits > 1))
      return Bad("an integer is expected");
    int32_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + at_, value);
    if (error != std::errc() || value < 0) {
      return InvalidError("TOKEN_OUT_OF_RANGE",
                          path_ + ": at byte " + std::to_string(begin) + ": token id " +
                              std::string(text_.substr(begin, std::min<size_t>(at_ - begin, 24))) +
                              " is negative or beyond 2147483647");
    }
    return value;
  }

 private:
  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<int32_t>> ParseTokenList(std::string_view text,
                                                    const std::string& path) {
  Scanner in(text, path);
  std::vector<int32_t> out;
  if (!in.Take('[')) return in.Bad("'[' is expected");
  if (!in.Take(']')) {
    do {
      ASSAY_ASSIGN_OR_RETURN(const int32_t id, in.Integer());
      out.push_back(id);
    } while (in.Take(','));
    if (!in.Take(']')) return in.Bad("',' or ']' is expected");
  }
  if (!in.AtEnd()) return in.Bad("text follows the list");
  return out;
}

std::string TokenFileBytes(const std::vector<int32_t>& tokens) {
  std::string out = "[";
  char digits[16];
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ", ";
    const auto result = std::to_chars(digits, digits + sizeof digits, tokens[i]);
    out.append(digits, result.ptr);
  }
  return out + "]";
}

}  // namespace assay
