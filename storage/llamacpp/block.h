// The text that `llama-perplexity --kl-divergence` prints, number for number.
//
// Formulas: tools/perplexity/perplexity.cpp of ggml-org/llama.cpp. Rows count as independent there,
// so its uncertainties are smaller than those of Assay's reports, whose unit is the document.

#ifndef ASSAY_STORAGE_LLAMACPP_BLOCK_H_
#define ASSAY_STORAGE_LLAMACPP_BLOCK_H_

#include <cstdint>
#include <span>
#include <string>

#include "storage/llamacpp/rows.h"

namespace assay {

inline constexpr size_t kLlamacppBlockRowsMin = 100;  // the tool prints no closing block for fewer

// The heading and one line for each chunk: running values over all rows so far. `rows` are chunk
// after chunk, `rows_per_chunk` each.
std::string LlamacppChunkLines(std::span<const LlamacppToolRow> rows, size_t rows_per_chunk);

// The closing block: perplexity, KL divergence and token probability statistics. "" below
// kLlamacppBlockRowsMin rows.
std::string LlamacppClosingBlock(std::span<const LlamacppToolRow> rows);

}  // namespace assay

#endif  // ASSAY_STORAGE_LLAMACPP_BLOCK_H_
