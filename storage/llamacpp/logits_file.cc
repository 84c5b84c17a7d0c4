#include "storage/llamacpp/logits_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "storage/base/checked.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr std::string_view kMagicV1 = "_logits_";
constexpr std::string_view kMagicV2 = "_logits2";
constexpr uint64_t kHeaderBytes = 20;
constexpr float kCodeMax = 65535;
// A clipped row's scale is (M - m) / 65535 with m = M - floor rounded to float32: a few ulp of a
// large M away.
constexpr double kScale16Max = 16.0 / 65535 * (1 + 1e-5);
constexpr double kScale24Max = 24.0 / 65535 * (1 + 1e-5);

int64_t PaddedCodes(int64_t vocab) { return (vocab + 1) / 2 * 2; }

template <typename T>
T LoadAt(std::span<const uint8_t> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void Append(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string_view LlamacppCodingName(LlamacppCoding coding) {
  switch (coding) {
    case LlamacppCoding::kFloor16:
      return "llama.cpp, floor 16 nats";
    case LlamacppCoding::kFloor24:
      return "ik_llama.cpp, floor 24 nats";
    case LlamacppCoding::kV2:
      return "_logits2, no floor";
  }
  return "";
}

absl::Status LlamacppLogits::Bad(const std::string& why) const {
  return InvalidError("LLAMACPP_INVALID", path() + ": " + why);
}

absl::StatusOr<std::shared_ptr<const LlamacppLogits>> LlamacppLogits::Open(
    const std::string& path) {
  std::shared_ptr<LlamacppLogits> out(new LlamacppLogits);
  ASSAY_ASSIGN_OR_RETURN(out->file_, MappedFile::Open(path));
  ASSAY_RETURN_IF_ERROR(out->ReadHeader());
  ASSAY_RETURN_IF_ERROR(out->CheckTokens());
  ASSAY_RETURN_IF_ERROR(out->CheckRows());
  return std::shared_ptr<const LlamacppLogits>(std::move(out));
}

absl::Status LlamacppLogits::ReadHeader() {
  const auto bytes = file_->bytes();
  const std::string_view magic(reinterpret_cast<const char*>(bytes.data()),
                               std::min<size_t>(bytes.size(), 8));
  if (magic != kMagicV1 && magic != kMagicV2) {
    return Bad(
        "does not begin with _logits_, so it is no logits file of llama.cpp; make one with "
        "llama-perplexity -m MODEL -f TEXT --kl-divergence-base FILE");
  }
  if (bytes.size() < kHeaderBytes) {
    return Bad("ends inside its header (" + std::to_string(bytes.size()) +
               " bytes); the run that wrote it broke off, for instance because its text was "
               "shorter than two contexts");
  }
  if (magic == kMagicV2) coding_ = LlamacppCoding::kV2;
  context_ = LoadAt<int32_t>(bytes, 8);
  vocab_ = LoadAt<int32_t>(bytes, 12);
  chunks_ = LoadAt<int32_t>(bytes, 16);
  if (context_ < 3 || context_ > kLlamacppContextMax || vocab_ < 1 || vocab_ > kLlamacppVocabMax ||
      chunks_ < 1) {
    return Bad("its header states a context of " + std::to_string(context_) +
               " tokens, a vocabulary of " + std::to_string(vocab_) + " and " +
               std::to_string(chunks_) + " chunks; write the file again");
  }
  row_bytes_ = 2 * static_cast<uint64_t>(PaddedCodes(vocab_) + 4);
  rows_begin_ = kHeaderBytes + 4 * static_cast<uint64_t>(chunks_) * static_cast<uint64_t>(context_);
  const auto rows_bytes = CheckedMul(static_cast<uint64_t>(rows()), row_bytes_);
  const auto expected = rows_bytes ? CheckedAdd(rows_begin_, *rows_bytes) : rows_bytes;
  if (!expected || *expected != bytes.size()) {
    return Bad(
        "has " + std::to_string(bytes.size()) + " bytes; " + std::to_string(chunks_) +
        " chunks of " + std::to_string(context_) + " tokens and a vocabulary of " +
        std::to_string(vocab_) + " need " +
        (expected ? std::to_string(*expected) : "more than 2^64") +
        "; it is cut short, has something behind its end, or a damaged header. Write it again");
  }
  return absl::OkStatus();
}

std::span<const int32_t> LlamacppLogits::Tokens(int64_t chunk) const {
  // The mapping starts on a page and tokens on a multiple of four.
  const uint8_t* at =
      file_->bytes().data() + kHeaderBytes + 4 * static_cast<uint64_t>(chunk * context_);
  return {reinterpret_cast<const int32_t*>(at), static_cast<size_t>(context_)};
}

LlamacppRow LlamacppLogits::Row(int64_t row) const {
  const uint64_t offset = rows_begin_ + static_cast<uint64_t>(row) * row_bytes_;
  LlamacppRow out;
  out.scale = LoadAt<float>(file_->bytes(), offset);
  out.base = LoadAt<float>(file_->bytes(), offset + 4);
  out.codes = {reinterpret_cast<const uint16_t*>(file_->bytes().data() + offset + 8),
               static_cast<size_t>(vocab_)};
  return out;
}

int32_t LlamacppLogits::Target(int64_t row) const {
  return Tokens(row / rows_per_chunk())[first_position() + row % rows_per_chunk() + 1];
}

absl::Status LlamacppLogits::CheckTokens() const {
  for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
    const auto tokens = Tokens(chunk);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] >= 0 && tokens[i] < vocab_) continue;
      return InvalidError("TOKEN_OUT_OF_RANGE",
                          path() + ": chunk " + std::to_string(chunk) + ", position " +
                              std::to_string(i) + ": token id " + std::to_string(tokens[i]) +
                              " is outside the vocabulary of " + std::to_string(vocab_) +
                              "; the file is damaged, write it again");
    }
  }
  return absl::OkStatus();
}

absl::Status LlamacppLogits::CheckRows() {
  for (int64_t i = 0; i < rows(); ++i) {
    const LlamacppRow row = Row(i);
    std::string why;
    const uint16_t top = *std::max_element(row.codes.begin(), row.codes.end());
    if (!std::isfinite(row.scale) || row.scale < 0) {
      why = "its scale is negative or no number";
    } else if (!std::isfinite(row.base) || row.base > 0) {
      why = "its base is positive or no finite number";
    } else if (coding_ != LlamacppCoding::kV2 && row.scale > kScale24Max) {
      why = "its scale is above 24 / 65535, which no known program writes";
    } else if (row.scale > 0 && top != kCodeMax) {
      why = "no code is 65535, which every row's largest logit has";
    } else if (row.scale == 0 && top > (coding_ == LlamacppCoding::kV2 ? 1 : 0)) {
      why = "its scale is 0, but its codes differ";
    }
    if (!why.empty()) {
      return Bad("chunk " + std::to_string(i / rows_per_chunk()) + ", position " +
                 std::to_string(first_position() + i % rows_per_chunk()) + ": " + why +
                 "; the file is damaged or its run had logits that are no numbers. Write it again");
    }
    if (coding_ == LlamacppCoding::kFloor16 && row.scale > kScale16Max)
      coding_ = LlamacppCoding::kFloor24;
  }
  return absl::OkStatus();
}

float LlamacppExp(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }

LlamacppNormalizer LlamacppNormalizerOf(std::span<const float> logits) {
  LlamacppNormalizer out;
  out.max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += static_cast<double>(LlamacppExp(logit - out.max));
  out.log_sum = static_cast<float>(std::log(sum));
  return out;
}

std::string EncodeLlamacppRow(std::span<const float> logits, LlamacppCoding coding) {
  const float floor = coding == LlamacppCoding::kFloor24 ? 24 : 16;
  const LlamacppNormalizer norm = LlamacppNormalizerOf(logits);
  const float lowest = std::max(*std::min_element(logits.begin(), logits.end()), norm.max - floor);
  const float scale = (norm.max - lowest) / kCodeMax;
  std::string out;
  out.reserve(2 * static_cast<size_t>(PaddedCodes(static_cast<int64_t>(logits.size())) + 4));
  Append(scale, &out);
  Append((lowest - norm.max) - norm.log_sum, &out);
  const float inverse = scale > 0 ? 1.0F / scale : 0;
  for (const float logit : logits) {
    const bool coded = scale > 0 && logit > lowest;
    Append(static_cast<uint16_t>(coded ? std::nearbyint(inverse * (logit - lowest)) : 0), &out);
  }
  if (logits.size() % 2 == 1) Append(uint16_t{0}, &out);
  return out;
}

std::string EncodeLlamacppHeader(int64_t context_length, int64_t vocab_size,
                                 std::span<const int32_t> tokens) {
  std::string out(kMagicV1);
  Append(static_cast<int32_t>(context_length), &out);
  Append(static_cast<int32_t>(vocab_size), &out);
  Append(static_cast<int32_t>(static_cast<int64_t>(tokens.size()) / context_length), &out);
  for (const int32_t id : tokens) Append(id, &out);
  return out;
}

}  // namespace assay
