// tokenizer.json as the pages read it for the text of tokens.

#include "client/html/token_text.h"
#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(tokenizer) {
  (void)ByteLevelText(input);
  (void)SentencePieceText(input);
  const auto text = TokenText::Open(fuzz::ScratchFile("tokenizer.json", input));
  if (!text.ok()) return;
  for (int64_t id = -1; id <= static_cast<int64_t>(text->size()); ++id) (void)text->Text(id);
}

}  // namespace assay
