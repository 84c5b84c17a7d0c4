// llama.cpp's logits files: opened, every row read, compared with themselves.

#include "storage/llamacpp/block.h"
#include "storage/llamacpp/compare.h"
#include "storage/llamacpp/logits_file.h"
#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(llamacpp_logits) {
  const auto file = LlamacppLogits::Open(fuzz::ScratchFile("input.kld", input));
  if (!file.ok()) return;
  const LlamacppLogits& logits = **file;
  for (int64_t chunk = 0; chunk < logits.chunks(); ++chunk)
    fuzz::Require(logits.Tokens(chunk).size() == static_cast<size_t>(logits.context_length()),
                  "a chunk has its tokens");
  for (int64_t row = 0; row < logits.rows(); ++row) {
    fuzz::Require(logits.Row(row).codes.size() == static_cast<size_t>(logits.vocab_size()),
                  "a row has a code for every column");
    fuzz::Require(logits.Target(row) >= 0 && logits.Target(row) < logits.vocab_size(),
                  "a row predicts a token of the vocabulary");
  }
  const auto rows = CompareLogitsFiles(logits, logits, 1);
  if (!rows.ok()) return;
  for (const LogitsPairRow& row : *rows)
    fuzz::Require(row.kl_renorm == 0 && row.jsd_renorm_bits == 0, "a file equals itself");
  (void)SummarizeLogitsRows(*rows);
}

}  // namespace assay
