#include "storage/dataset/canonical.h"

#include <cstdio>
#include <map>

#include "storage/base/digest.h"
#include "storage/base/number_format.h"
#include "storage/dataset/finding.h"

namespace assay {
namespace {

void AppendString(std::string_view text, std::string* out) {
  constexpr std::string_view kFrom = "\"\\\n\r\t\b\f", kTo = "\"\\nrtbf";
  *out += '"';
  for (const char c : text) {
    const size_t at = kFrom.find(c);
    if (at != std::string_view::npos) {
      *out += '\\';
      *out += kTo[at];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char unit[8];
      snprintf(unit, sizeof unit, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      *out += unit;
    } else {
      *out += c;
    }
  }
  *out += '"';
}

// `indent` < 0: one line.
class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}

  void Append(const Json& value, int depth) {
    if (value.is_object()) {
      std::map<std::string, const Json*> members;  // byte order of UTF-8 is code-point order
      for (const auto& [key, member] : value.items()) members[key] = &member;
      text += '{';
      bool first = true;
      for (const auto& [key, member] : members) {
        Separate(&first, depth + 1);
        AppendString(key, &text);
        text += indent_ < 0 ? ":" : ": ";
        Append(*member, depth + 1);
      }
      if (!first) Break(depth);
      text += '}';
    } else if (value.is_array()) {
      text += '[';
      bool first = true;
      for (const Json& item : value) {
        Separate(&first, depth + 1);
        Append(item, depth + 1);
      }
      if (!first) Break(depth);
      text += ']';
    } else if (value.is_string()) {
      AppendString(value.get_ref<const std::string&>(), &text);
    } else if (value.is_number_float()) {
      text += PythonFloat(value.get<double>());
    } else {
      text += value.dump();  // integers, booleans, null
    }
  }

  std::string text;

 private:
  void Break(int depth) {
    if (indent_ < 0) return;
    text += '\n';
    text.append(static_cast<size_t>(indent_ * depth), ' ');
  }
  void Separate(bool* first, int depth) {
    if (!*first) text += ',';
    *first = false;
    Break(depth);
  }

  const int indent_;
};

}  // namespace

std::string DatasetCanonicalJson(const Json& value) {
  Writer writer(-1);
  writer.Append(value, 0);
  return std::move(writer.text);
}

std::string DatasetPrettyJson(const Json& value) {
  Writer writer(2);
  writer.Append(value, 0);
  return writer.text + "\n";
}

std::string DatasetSeal(const Json& document, std::string_view field) {
  Json copy = document;
  copy[std::string(field)] = "";
  return Sha256Hex(DatasetCanonicalJson(copy));
}

std::optional<std::string> DatasetContentDigest(const Json& records) {
  std::map<int64_t, std::string> lines;
  for (const Json& record : records) {
    const auto index = DatasetInt(DatasetMember(record, {"index"}));
    const auto digest = DatasetString(DatasetMember(record, {"tensor_content_sha256"}));
    if (!index || !digest || !lines.emplace(*index, *digest).second) return std::nullopt;
  }
  std::string text;
  for (const auto& [index, digest] : lines) {
    text += (text.empty() ? "" : "\n") + std::to_string(index) + ":" + digest;
  }
  return Sha256Hex(text);
}

std::string DatasetSuiteHash(const Json& records) {
  std::map<int64_t, std::string> digests;
  for (const Json& record : records) {
    const auto index = DatasetInt(DatasetMember(record, {"index"}));
    if (index)
      digests.emplace(*index, DatasetText(DatasetMember(record, {"token_ids_json_sha256"})));
  }
  std::string text;
  for (const auto& [index, digest] : digests) text += (text.empty() ? "" : "\n") + digest;
  return Sha256Hex(text);
}

}  // namespace assay
