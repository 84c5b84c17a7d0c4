#include "storage/seal/encoding.h"

#include <array>
#include <cstdint>

namespace assay {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string Base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j) {
      word = word << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      const bool data = i + j <= bytes.size() && (j < 2 || i + j - 1 < bytes.size());
      out += data ? kAlphabet[word >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

std::optional<std::string> BytesOfBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t word = 0;
    size_t padding = 0;
    for (size_t j = 0; j < 4; ++j) {
      const size_t value = kAlphabet.find(text[i + j]);
      if (text[i + j] == '=') {
        ++padding;
      } else if (value == std::string_view::npos || padding > 0) {
        return std::nullopt;
      }
      word = word << 6 | static_cast<uint32_t>(text[i + j] == '=' ? 0 : value);
    }
    if (padding > 2 || (padding > 0 && i + 4 != text.size())) return std::nullopt;
    for (size_t j = 0; j < 3 - padding; ++j) out += static_cast<char>(word >> (16 - 8 * j) & 255);
  }
  if (Base64(out) != text) return std::nullopt;
  return out;
}

}  // namespace assay
