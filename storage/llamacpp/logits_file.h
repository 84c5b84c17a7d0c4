// Logits files of llama.cpp (`llama-perplexity --kl-divergence-base FILE`, also --save-all-logits):
// 16-bit log-probabilities of the second half of every chunk of a text.
//
//     "_logits_"  int32 C  int32 V  int32 N  int32 token[N][C]  row[N * R]
//
// R = C - 1 - C / 2 scored positions of a chunk: C / 2 to C - 2, each predicting the next token. A
// row is float32 scale, float32 base and V uint16 codes, padded to an even count: log p = scale *
// code + base, in nats. Source: ggml-org/llama.cpp tools/perplexity/perplexity.cpp; 24 nats:
// ik_llama.cpp; "_logits2": beellama.cpp.
//
// The format has no version, checksum or model identity, and the tool itself goes on with damaged
// files. So Open checks all that can be checked: the exact size, every token, every row's scale,
// base and codes.

#ifndef ASSAY_STORAGE_LLAMACPP_LOGITS_FILE_H_
#define ASSAY_STORAGE_LLAMACPP_LOGITS_FILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/files.h"

namespace assay {

inline constexpr int64_t kLlamacppContextMax = 1 << 20;
inline constexpr int64_t kLlamacppVocabMax = 1 << 24;

// How a writer coded a row. Below the floor every column has code 0: "at most exp(base)", never a
// probability.
enum class LlamacppCoding {
  kFloor16,  // llama.cpp: 16 nats below the row's maximum
  kFloor24,  // ik_llama.cpp: 24; told by a scale above 16 / 65535
  kV2,       // no floor: codes 1 to 65535 span the row, code 0 is a probability of exactly zero
};
std::string_view LlamacppCodingName(LlamacppCoding coding);

// One row. `codes` points into the mapped file.
struct LlamacppRow {
  float scale = 0;
  float base = 0;  // log-probability of code 0 (kV2: of code 1)
  std::span<const uint16_t> codes;
};

class LlamacppLogits {
 public:
  // Errors name file, chunk and row: FILE_MISSING and the like, LLAMACPP_INVALID,
  // TOKEN_OUT_OF_RANGE.
  static absl::StatusOr<std::shared_ptr<const LlamacppLogits>> Open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  LlamacppCoding coding() const { return coding_; }
  int64_t context_length() const { return context_; }  // C, tokens of a chunk
  int64_t vocab_size() const { return vocab_; }        // V
  int64_t chunks() const { return chunks_; }           // N
  int64_t rows_per_chunk() const { return context_ - 1 - context_ / 2; }
  int64_t rows() const { return chunks_ * rows_per_chunk(); }
  int64_t first_position() const { return context_ / 2; }  // of a chunk's first row

  // The ids as stored: where the model wants a BOS, it was fed that in place of each chunk's first
  // id.
  std::span<const int32_t> Tokens(int64_t chunk) const;
  LlamacppRow Row(int64_t row) const;  // 0 <= row < rows(), chunk after chunk
  int32_t Target(int64_t row) const;   // the token that the row predicts
  uint64_t row_bytes() const { return row_bytes_; }

 private:
  LlamacppLogits() = default;
  absl::Status ReadHeader();
  absl::Status CheckTokens() const;
  absl::Status CheckRows();
  absl::Status Bad(const std::string& why) const;

  std::shared_ptr<const MappedFile> file_;
  LlamacppCoding coding_ = LlamacppCoding::kFloor16;
  int64_t context_ = 0, vocab_ = 0, chunks_ = 0;
  uint64_t row_bytes_ = 0, rows_begin_ = 0;
};

// The row (of kFloor16 or kFloor24) that llama.cpp writes for `logits`, [V] float32 and finite:
// float32 steps with a float64 sum of exponentials in index order. Padding is zero.
std::string EncodeLlamacppRow(std::span<const float> logits,
                              LlamacppCoding coding = LlamacppCoding::kFloor16);

// The header and tokens that precede the rows; `tokens` holds whole chunks of `context_length`.
std::string EncodeLlamacppHeader(int64_t context_length, int64_t vocab_size,
                                 std::span<const int32_t> tokens);

// Maximum and float32 log of the sum of exponentials above it, as the tool forms them for a row of
// logits.
struct LlamacppNormalizer {
  float max = 0;
  float log_sum = 0;
};
LlamacppNormalizer LlamacppNormalizerOf(std::span<const float> logits);
float LlamacppExp(float x);  // correctly rounded float32 exponential

}  // namespace assay

#endif  // ASSAY_STORAGE_LLAMACPP_LOGITS_FILE_H_
