#include "client/html/escape.h"

#include <cstdint>
#include <cstdio>

#include "storage/base/macros.h"
#include "storage/base/utf8.h"

namespace assay {
namespace {

// Length of the well-formed character at the start of `text`; 0 when there is none.
size_t CharacterBytes(std::string_view text) {
  for (size_t n = 1; n <= 4 && n <= text.size(); ++n) {
    if (IsUtf8(text.substr(0, n))) return n;
  }
  return 0;
}

uint32_t CodePoint(std::string_view character) {
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<uint8_t>(character[i]));
  };
  uint32_t code = byte(0);
  if (character.size() > 1) code &= 0xffu >> (character.size() + 1);
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3f);
  return code;
}

// Characters that are invisible or change how others are laid out.
bool IsHidden(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0xad || c == 0x61c || c == 0x180e ||
         (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
         (c >= 0xe0000 && c <= 0xe007f);
}

std::string Formatted(const char* format, uint32_t value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

const char* Reference(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return nullptr;
  }
}

// `bad` gives the text of a byte that belongs to no character, `control` that of a hidden one.
template <typename Bad, typename Control>
std::string Escape(std::string_view text, Bad bad, Control control) {
  std::string out;
  while (!text.empty()) {
    const size_t n = CharacterBytes(text);
    if (n == 0) {
      out += bad(static_cast<uint8_t>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    const std::string_view character = text.substr(0, n);
    const uint32_t code = CodePoint(character);
    if (IsHidden(code)) {
      out += control(code);
    } else if (const char* reference = n == 1 ? Reference(text[0]) : nullptr) {
      out += reference;
    } else {
      out += character;
    }
    text.remove_prefix(n);
  }
  return out;
}

std::string SpelledOut(uint32_t code) { return Formatted("\\u{%04X}", code); }

}  // namespace

std::string HtmlText(std::string_view text) {
  return Escape(
      text, [](uint8_t) { return std::string("?"); }, SpelledOut);
}

std::string HtmlToken(std::string_view bytes) {
  constexpr std::string_view kBlank = "\xe2\x90\xa3";  // U+2423, open box
  std::string shown;
  size_t first = 0, last = bytes.size();
  while (first < last && bytes[first] == ' ') ++first;
  while (last > first && bytes[last - 1] == ' ') --last;
  for (size_t i = 0; i < first; ++i) shown += kBlank;
  shown += Escape(
      bytes.substr(first, last - first), [](uint8_t byte) { return Formatted("\\x%02X", byte); },
      [](uint32_t code) -> std::string {
        if (code == '\n') return "\\n";
        if (code == '\t') return "\\t";
        if (code == '\r') return "\\r";
        return SpelledOut(code);
      });
  for (size_t i = last; i < bytes.size(); ++i) shown += kBlank;
  return shown;
}

absl::StatusOr<std::string> ScriptJson(const Json& value) {
  ASSAY_ASSIGN_OR_RETURN(const std::string json, CanonicalJson(value));
  std::string out;
  for (std::string_view rest = json; !rest.empty();) {
    const size_t n = std::max<size_t>(CharacterBytes(rest), 1);
    const uint32_t code = CodePoint(rest.substr(0, n));
    if (code == '<' || code == '>' || code == '&' || (IsHidden(code) && code < 0x10000)) {
      out += Formatted("\\u%04x", code);
    } else if (IsHidden(code)) {  // beyond the first plane: a surrogate pair
      out += Formatted("\\u%04x", 0xd7c0 + (code >> 10)) +
             Formatted("\\u%04x", 0xdc00 + (code & 0x3ff));
    } else {
      out += rest.substr(0, n);
    }
    rest.remove_prefix(n);
  }
  return out;
}

}  // namespace assay
