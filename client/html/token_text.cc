#include "client/html/token_text.h"

#include <array>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/utf8.h"
#include "storage/format/gguf.h"

namespace assay {
namespace {

constexpr uint64_t kTokenizerBytesMax = uint64_t{256} << 20;
constexpr int64_t kTokensMax = int64_t{1} << 24;

absl::Status Invalid(const std::string& path, const std::string& what) {
  return InvalidError("TOKENIZER_INVALID", path + ": " + what +
                                               "; give a GGUF file or a tokenizer.json, or leave "
                                               "--tokens out to show ids only");
}

// GPT-2 writes byte b as character b where that is printable Latin-1, else as 256 + n for the n-th
// of the others. Byte of each character below 324, -1 for those that stand for none.
const std::array<int, 324>& BytesOfCharacters() {
  static const std::array<int, 324> kTable = [] {
    std::array<int, 324> table;
    table.fill(-1);
    int others = 0;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      table[static_cast<size_t>(printable ? b : 256 + others++)] = b;
    }
    return table;
  }();
  return kTable;
}

bool MentionsByteLevel(const Json& document) {
  for (const char* part : {"decoder", "pre_tokenizer"}) {
    if (document.contains(part) &&
        document.at(part).dump().find("\"ByteLevel\"") != std::string::npos) {
      return true;
    }
  }
  return false;
}

struct Vocabulary {
  std::vector<std::string> pieces;
  std::vector<std::string_view> views;
};

absl::Status Place(const std::string& path, const std::string& piece, const Json& id,
                   Vocabulary* out) {
  if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kTokensMax) {
    return Invalid(path, "token \"" + ScrubUtf8(piece.substr(0, 80)) + "\" has no usable id");
  }
  const auto at = static_cast<size_t>(id.get<int64_t>());
  if (at >= out->pieces.size()) out->pieces.resize(at + 1);
  out->pieces[at] = piece;
  return absl::OkStatus();
}

// model.vocab is {"piece": id} (BPE, WordPiece) or [["piece", score], ...] (Unigram).
absl::Status ReadVocabulary(const std::string& path, const Json& document, Vocabulary* out) {
  if (!document.is_object() || !document.contains("model") || !document.at("model").is_object() ||
      !document.at("model").contains("vocab")) {
    return Invalid(path, "holds no model.vocab");
  }
  const Json& vocab = document.at("model").at("vocab");
  if (vocab.is_object()) {
    for (const auto& [piece, id] : vocab.items()) {
      ASSAY_RETURN_IF_ERROR(Place(path, piece, id, out));
    }
  } else {
    for (size_t i = 0; i < vocab.size(); ++i) {
      if (!vocab[i].is_array() || vocab[i].empty() || !vocab[i][0].is_string()) {
        return Invalid(path,
                       "model.vocab[" + std::to_string(i) + "] is no pair of piece and score");
      }
      ASSAY_RETURN_IF_ERROR(Place(path, vocab[i][0].get<std::string>(), Json(i), out));
    }
  }
  if (!document.contains("added_tokens")) return absl::OkStatus();
  for (const Json& token : document.at("added_tokens")) {
    if (!token.is_object() || !token.contains("content") || !token.at("content").is_string())
      continue;
    ASSAY_RETURN_IF_ERROR(
        Place(path, token.at("content").get<std::string>(), token.value("id", Json()), out));
  }
  return absl::OkStatus();
}

bool IsGguf(const std::string& path) {
  const auto mapped = MappedFile::Open(path);
  if (!mapped.ok() || (*mapped)->size() < 4) return false;
  const auto bytes = (*mapped)->bytes();
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), 4) == "GGUF";
}

}  // namespace

absl::StatusOr<TokenText> TokenText::Open(const std::string& given) {
  const std::string path = IsDirectory(given) ? JoinPath(given, "tokenizer.json") : given;
  if (!FileExists(path)) {
    return NotFoundError("FILE_MISSING", path +
                                             ": there is no such file; --tokens takes a GGUF "
                                             "file, a tokenizer.json or a folder with one");
  }
  TokenText out;
  if (IsGguf(path)) {
    ASSAY_ASSIGN_OR_RETURN(const std::shared_ptr<const GgufFile> file, GgufFile::Open(path));
    const auto tokens = file->kv().find("tokenizer.ggml.tokens");
    if (tokens == file->kv().end()) return Invalid(path, "holds no tokenizer.ggml.tokens");
    out.pieces_ = GgufStrings(tokens->second);
    const auto model = file->String("tokenizer.ggml.model");
    out.byte_level_ = model.ok() && *model == "gpt2";
    out.keep_ = file;
    return out;
  }
  const absl::StatusOr<Json> read = ReadJsonFile(path, kTokenizerBytesMax);
  if (!read.ok()) return Invalid(path, "is neither (" + MessageOf(read.status()) + ")");
  const Json& document = *read;
  auto vocabulary = std::make_shared<Vocabulary>();
  ASSAY_RETURN_IF_ERROR(ReadVocabulary(path, document, vocabulary.get()));
  out.pieces_.assign(vocabulary->pieces.begin(), vocabulary->pieces.end());
  out.byte_level_ = MentionsByteLevel(document);
  out.keep_ = vocabulary;
  return out;
}

std::optional<std::string> TokenText::Text(int64_t id) const {
  if (id < 0 || static_cast<uint64_t>(id) >= pieces_.size()) return std::nullopt;
  const std::string_view piece = pieces_[static_cast<size_t>(id)];
  if (piece.empty()) return std::nullopt;
  return byte_level_ ? ByteLevelText(piece) : SentencePieceText(piece);
}

std::string ByteLevelText(std::string_view piece) {
  std::string out;
  for (size_t i = 0; i < piece.size();) {
    const auto lead = static_cast<uint8_t>(piece[i]);
    int byte = -1;
    size_t length = 1;
    if (lead < 0x80) {
      byte = BytesOfCharacters()[lead];
    } else if (lead >= 0xc3 && lead <= 0xc5 && i + 1 < piece.size()) {
      const uint32_t code = (lead & 0x1fu) << 6 | (static_cast<uint8_t>(piece[i + 1]) & 0x3fu);
      length = 2;
      if (code < BytesOfCharacters().size()) byte = BytesOfCharacters()[code];
    } else if (lead == 0xc2 && i + 1 < piece.size()) {
      length = 2;
      byte = BytesOfCharacters()[static_cast<uint8_t>(piece[i + 1])];
    }
    // Added tokens are plain text: what stands for no byte is kept.
    if (byte >= 0) {
      out += static_cast<char>(byte);
    } else {
      out += piece.substr(i, length);
    }
    i += length;
  }
  return out;
}

std::string SentencePieceText(std::string_view piece) {
  constexpr std::string_view kBlank = "\xe2\x96\x81";  // U+2581
  constexpr std::string_view kHex = "0123456789ABCDEF";
  if (piece.size() == 6 && piece.substr(0, 3) == "<0x" && piece[5] == '>') {
    const size_t high = kHex.find(piece[3]), low = kHex.find(piece[4]);
    if (high != std::string_view::npos && low != std::string_view::npos) {
      return std::string(1, static_cast<char>(high * 16 + low));
    }
  }
  std::string out(piece);
  for (size_t at = out.find(kBlank); at != std::string::npos; at = out.find(kBlank, at + 1)) {
    out.replace(at, kBlank.size(), " ");
  }
  return out;
}

}  // namespace assay
