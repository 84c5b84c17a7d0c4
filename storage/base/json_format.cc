// Writers of storage/base/json.h.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/number_format.h"
#include "storage/base/python_string.h"
#include "storage/base/status.h"

namespace assay {
namespace {

// Decodes one code point of valid UTF-8 at `i` and moves `i` past it.
uint32_t NextCodePoint(std::string_view text, size_t& i) {
  const auto byte = [&](size_t k) { return static_cast<uint32_t>(static_cast<uint8_t>(text[k])); };
  const uint32_t lead = byte(i);
  const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint32_t point = length == 1 ? lead : lead & (0xFFu >> (length + 1));
  for (size_t k = 1; k < length && i + k < text.size(); ++k)
    point = point << 6 | (byte(i + k) & 0x3F);
  i += length;
  return point;
}

std::u16string Utf16(const std::string& text) {
  std::u16string out;
  for (size_t i = 0; i < text.size();) {
    const uint32_t point = NextCodePoint(text, i);
    if (point < 0x10000) {
      out += static_cast<char16_t>(point);
    } else {
      out += static_cast<char16_t>(0xD800 + ((point - 0x10000) >> 10));
      out += static_cast<char16_t>(0xDC00 + ((point - 0x10000) & 0x3FF));
    }
  }
  return out;
}

const char* ShortEscape(uint32_t point) {
  switch (point) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return nullptr;
  }
}

void AppendUnit(std::string& out, uint32_t unit) {
  char buffer[16];  // room for any 32-bit value, so that the compiler sees it fits
  std::snprintf(buffer, sizeof(buffer), "\\u%04x", unit);
  out += buffer;
}

// JCS strings: only controls, quote and backslash are escaped.
void AppendCanonicalString(std::string& out, const std::string& text) {
  out += '"';
  for (char c : text) {
    const uint32_t byte = static_cast<uint8_t>(c);
    if (const char* escape = ShortEscape(byte)) {
      out += escape;
    } else if (byte < 0x20) {
      AppendUnit(out, byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

// CPython with ensure_ascii: everything outside U+0020..U+007E as \uXXXX, astral points as a
// surrogate pair.
void AppendAsciiString(std::string& out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const uint32_t point = NextCodePoint(text, i);
    if (const char* escape = ShortEscape(point)) {
      out += escape;
    } else if (point >= 0x20 && point <= 0x7E) {
      out += static_cast<char>(point);
    } else if (point < 0x10000) {
      AppendUnit(out, point);
    } else {
      AppendUnit(out, 0xD800 + ((point - 0x10000) >> 10));
      AppendUnit(out, 0xDC00 + ((point - 0x10000) & 0x3FF));
    }
  }
  out += '"';
}

// `nearest` is the double next to the integer. Beyond 2^53 only what a double is written as:
// so a canonical document with such a double can be read and written again.
absl::Status AppendInteger(std::string& out, const std::string& digits, double nearest) {
  if (std::fabs(nearest) >= 0x1p53 && EcmaScriptNumber(nearest) != digits)
    return InvalidError("JSON_NOT_CANONICAL", "integer " + digits + " is beyond 2^53");
  out += digits;
  return absl::OkStatus();
}

absl::Status AppendCanonical(std::string& out, const Json& value) {
  if (value.is_object()) {
    std::vector<std::pair<std::u16string, const Json*>> members;
    std::vector<std::string> names;
    for (const auto& [key, member] : value.items()) {
      members.emplace_back(Utf16(key), &member);
      names.push_back(key);
    }
    std::vector<size_t> order(members.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return members[a].first < members[b].first; });
    out += '{';
    bool first = true;
    for (size_t i : order) {
      if (!first) out += ',';
      first = false;
      AppendCanonicalString(out, names[i]);
      out += ':';
      ASSAY_RETURN_IF_ERROR(AppendCanonical(out, *members[i].second));
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ',';
      ASSAY_RETURN_IF_ERROR(AppendCanonical(out, value[i]));
    }
    out += ']';
  } else if (value.is_string()) {
    AppendCanonicalString(out, value.get_ref<const std::string&>());
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    if (!std::isfinite(number)) {
      return InvalidError("JSON_NOT_CANONICAL",
                          "a non-finite number cannot be written in canonical JSON");
    }
    out += EcmaScriptNumber(number);
  } else if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    return AppendInteger(out, std::to_string(number), static_cast<double>(number));
  } else if (value.is_number_integer()) {
    const int64_t number = value.get<int64_t>();
    return AppendInteger(out, std::to_string(number), static_cast<double>(number));
  } else if (value.is_boolean()) {
    out += value.get<bool>() ? "true" : "false";
  } else {
    out += "null";
  }
  return absl::OkStatus();
}

struct Layout {
  int indent = -1;  // < 0: one line
  const char* item_separator = ", ";
  const char* key_separator = ": ";
  bool sort_keys = false;
};

void AppendPython(std::string& out, const Json& value, const Layout& layout, int depth);

void NewLine(std::string& out, const Layout& layout, int depth) {
  if (layout.indent < 0) return;
  out += '\n';
  out.append(static_cast<size_t>(layout.indent * depth), ' ');
}

void AppendObject(std::string& out, const Json& value, const Layout& layout, int depth) {
  if (value.empty()) {
    out += "{}";
    return;
  }
  std::vector<std::pair<std::string, const Json*>> members;
  for (const auto& [key, member] : value.items()) members.emplace_back(key, &member);
  // Code-point order equals byte order in UTF-8.
  if (layout.sort_keys) {
    std::sort(members.begin(), members.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  out += '{';
  for (size_t i = 0; i < members.size(); ++i) {
    if (i > 0) out += layout.item_separator;
    NewLine(out, layout, depth + 1);
    AppendAsciiString(out, members[i].first);
    out += layout.key_separator;
    AppendPython(out, *members[i].second, layout, depth + 1);
  }
  NewLine(out, layout, depth);
  out += '}';
}

void AppendPython(std::string& out, const Json& value, const Layout& layout, int depth) {
  if (value.is_object()) {
    AppendObject(out, value, layout, depth);
  } else if (value.is_array()) {
    if (value.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += layout.item_separator;
      NewLine(out, layout, depth + 1);
      AppendPython(out, value[i], layout, depth + 1);
    }
    NewLine(out, layout, depth);
    out += ']';
  } else if (value.is_string()) {
    AppendAsciiString(out, value.get_ref<const std::string&>());
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::isnan(number)) {
      out += "NaN";
    } else if (std::isinf(number)) {
      out += number < 0 ? "-Infinity" : "Infinity";
    } else {
      out += PythonFloat(number);
    }
  } else if (value.is_number_unsigned()) {
    out += std::to_string(value.get<uint64_t>());
  } else if (value.is_number_integer()) {
    out += std::to_string(value.get<int64_t>());
  } else if (value.is_boolean()) {
    out += value.get<bool>() ? "true" : "false";
  } else {
    out += "null";
  }
}

}  // namespace

absl::StatusOr<std::string> CanonicalJson(const Json& value) {
  std::string out;
  ASSAY_RETURN_IF_ERROR(AppendCanonical(out, value));
  return out;
}

std::string PythonPrettyJson(const Json& value, int indent) {
  std::string out;
  AppendPython(out, value,
               {.indent = indent, .item_separator = ",", .key_separator = ": ", .sort_keys = false},
               0);
  return out;
}

std::string PythonPlainJson(const Json& value) {
  std::string out;
  AppendPython(out, value, {}, 0);
  return out;
}

void AppendPythonString(std::string_view text, std::string* out) { AppendAsciiString(*out, text); }

std::string PythonCanonJson(const Json& value) {
  std::string out;
  AppendPython(out, value,
               {.indent = -1, .item_separator = ",", .key_separator = ":", .sort_keys = true}, 0);
  return out;
}

}  // namespace assay
