#include "client/cli/tokenizer_check.h"

#include <cstring>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/utf8.h"
#include "storage/format/gguf.h"

namespace assay {
namespace {

constexpr size_t kShownDigits = 12;

const GgufValue* Find(const GgufFile& file, std::string_view key) {
  const auto it = file.kv().find(key);
  return it == file.kv().end() ? nullptr : &it->second;
}

// A JSON list of an array of strings; null when it is absent or not text.
Json Strings(const GgufFile& file, std::string_view key) {
  const GgufValue* value = Find(file, key);
  if (value == nullptr) return nullptr;
  Json list = Json::array();
  for (const std::string_view text : GgufStrings(*value)) {
    if (!IsUtf8(text)) return nullptr;
    list.push_back(std::string(text));
  }
  return list;
}

template <typename Stored, typename Shown>
Json Numbers(const GgufFile& file, std::string_view key, GgufType type) {
  const GgufValue* value = Find(file, key);
  if (value == nullptr || value->type != GgufType::kArray || value->element_type != type) {
    return nullptr;
  }
  Json list = Json::array();
  for (uint64_t i = 0; i < value->count; ++i) {
    Stored number;
    std::memcpy(&number, value->array_bytes.data() + i * sizeof number, sizeof number);
    list.push_back(static_cast<Shown>(number));
  }
  return list;
}

std::string Text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

std::string GgufVocabularySha256(const std::string& path) {
  const auto file = GgufFile::Open(path);
  if (!file.ok()) return "";
  const auto model = (*file)->String("tokenizer.ggml.model");
  if (!model.ok()) return "";
  Json content = Json::array();
  if (*model == "gpt2") {
    const auto pre = (*file)->String("tokenizer.ggml.pre");
    if (!pre.ok()) return "";
    content.push_back(*pre);
  } else if (*model == "llama") {
    const GgufValue* prefix = Find(**file, "tokenizer.ggml.add_space_prefix");
    const bool* said = prefix == nullptr ? nullptr : std::get_if<bool>(&prefix->scalar);
    content.push_back(said == nullptr || *said);
  } else {
    return "";
  }
  content.push_back(Strings(**file, "tokenizer.ggml.tokens"));
  content.push_back(Numbers<int32_t, int64_t>(**file, "tokenizer.ggml.token_type", GgufType::kI32));
  content.push_back(*model == "gpt2"
                        ? Strings(**file, "tokenizer.ggml.merges")
                        : Numbers<float, double>(**file, "tokenizer.ggml.scores", GgufType::kF32));
  for (const Json& part : content) {
    if (part.is_null()) return "";
  }
  return Sha256Hex(PythonCanonJson(content));
}

std::string TokenizerDifference(const Json& suite_manifest, const std::string& model_path,
                                DigestCache* cache) {
  const Json build = suite_manifest.is_object() ? suite_manifest.value("build", Json()) : Json();
  const Json made = build.is_object() ? build.value("tokenizer", Json()) : Json();
  if (!made.is_object()) return "";
  std::string stated, own, what;
  if (Text(made, "kind") == "gguf" && !IsDirectory(model_path)) {
    stated = Text(made, "vocabulary_sha256");
    own = GgufVocabularySha256(model_path);
    what = "vocabulary inside " + BaseName(model_path);
  } else if (Text(made, "kind") == "tokenizer.json" && IsDirectory(model_path)) {
    const std::string file = JoinPath(model_path, "tokenizer.json");
    stated = Text(made, "sha256");
    if (FileExists(file)) {
      own = (cache == nullptr ? Sha256File(file) : cache->FileSha256(file)).value_or("");
    }
    what = "tokenizer.json of " + BaseName(model_path);
  }
  if (stated.empty() || own.empty() || stated == own) return "";
  return fmt::format(
      "TOKENIZER_DIFFERS: the suite's token ids were made with {} ({}), the {} is another ({}). "
      "If its ids do not stand for the same texts, every number is about texts that were not "
      "meant: build the suite with this model's tokenizer",
      CutUtf8(Text(made, "file"), 80), stated.substr(0, kShownDigits), what,
      own.substr(0, kShownDigits));
}

}  // namespace assay
