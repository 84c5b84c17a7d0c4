// What a model's token ids stand for.

#ifndef ASSAY_CLIENT_HTML_TOKEN_TEXT_H_
#define ASSAY_CLIENT_HTML_TOKEN_TEXT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay {

// The text of each token: bytes, which need not be whole characters.
class TokenText {
 public:
  // `path`: a GGUF file, a tokenizer.json, or a folder that holds one. Byte-level vocabularies
  // (GPT-2's alphabet for bytes) and SentencePiece's (U+2581 for a blank, <0xNN> for a byte) are
  // turned back into text; nothing is joined or normalized. FILE_MISSING, TOKENIZER_INVALID, and
  // those of the formats.
  static absl::StatusOr<TokenText> Open(const std::string& path);

  // Nothing for an id that has no token.
  std::optional<std::string> Text(int64_t id) const;
  size_t size() const { return pieces_.size(); }

 private:
  std::shared_ptr<const void> keep_;  // what the pieces lie in
  std::vector<std::string_view> pieces_;
  bool byte_level_ = false;
};

// The bytes that a piece stands for; exposed for tests.
std::string ByteLevelText(std::string_view piece);
std::string SentencePieceText(std::string_view piece);

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_TOKEN_TEXT_H_
