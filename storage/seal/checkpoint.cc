#include "storage/seal/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/seal/encoding.h"

namespace assay {
namespace {

constexpr std::string_view kDash = "\xE2\x80\x94 ";  // em dash and a blank
constexpr size_t kOriginMax = 128;

std::string Text(std::span<const uint8_t> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string KeyHash(const std::string& name, const PublicKey& key) {
  const DigestBytes digest = Sha256Of(name + "\n\x01" + Text(key.raw()));
  return Text(digest).substr(0, 4);
}

std::string NoteText(const std::string& body, const std::string& name,
                     const std::string& signature) {
  return body + "\n" + std::string(kDash) + name + " " + Base64(signature) + "\n";
}

absl::Status Invalid(const std::string& what) {
  return InvalidError("CHECKPOINT_INVALID", "checkpoint: " + what);
}

// The next line without its newline; nothing when there is none.
std::optional<std::string> Line(std::string_view* text) {
  const size_t end = text->find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string line(text->substr(0, end));
  text->remove_prefix(end + 1);
  return line;
}

}  // namespace

bool IsLogOrigin(std::string_view origin) {
  return !origin.empty() && origin.size() <= kOriginMax &&
         std::all_of(origin.begin(), origin.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("./:_-").find(c) != std::string_view::npos;
         });
}

std::string CheckpointBody(const LogCheckpoint& checkpoint) {
  return checkpoint.origin + "\n" + std::to_string(checkpoint.size) + "\n" +
         Base64(Text(checkpoint.root)) + "\n";
}

absl::StatusOr<std::string> SignCheckpoint(const LogCheckpoint& checkpoint, const Signer& signer) {
  if (!IsLogOrigin(checkpoint.origin)) return Invalid("the origin has other characters than names");
  const std::string body = CheckpointBody(checkpoint);
  ASSAY_ASSIGN_OR_RETURN(const std::string signature, signer.Sign(body));
  return NoteText(body, checkpoint.origin,
                  KeyHash(checkpoint.origin, signer.public_key()) + signature);
}

absl::StatusOr<SignedCheckpoint> ParseCheckpoint(std::string_view note) {
  SignedCheckpoint out;
  std::string_view rest = note;
  const auto origin = Line(&rest), size = Line(&rest), root = Line(&rest), blank = Line(&rest);
  const auto signature = Line(&rest);
  if (!signature || !rest.empty()) return Invalid("is not three lines, a blank and a signature");
  out.checkpoint.origin = *origin;
  const char* end = size->data() + size->size();
  const auto parsed = std::from_chars(size->data(), end, out.checkpoint.size);
  if (parsed.ec != std::errc() || parsed.ptr != end || out.checkpoint.size > kLogSizeMax) {
    return Invalid("its second line is no log size");
  }
  const auto root_bytes = BytesOfBase64(*root);
  if (!root_bytes || root_bytes->size() != out.checkpoint.root.size()) {
    return Invalid("its third line is no root hash");
  }
  std::copy(root_bytes->begin(), root_bytes->end(), out.checkpoint.root.begin());
  const std::string prefix = std::string(kDash) + *origin + " ";
  if (!IsLogOrigin(*origin) || signature->rfind(prefix, 0) != 0) {
    return Invalid("its signature line does not name the origin");
  }
  const auto bytes = BytesOfBase64(std::string_view(*signature).substr(prefix.size()));
  if (!bytes || bytes->size() != 68) return Invalid("its signature is no Ed25519 note signature");
  out.body = CheckpointBody(out.checkpoint);
  out.key_hash = bytes->substr(0, 4);
  out.signature = bytes->substr(4);
  if (NoteText(out.body, *origin, *bytes) != note) return Invalid("has another form than written");
  return out;
}

bool CheckpointSignedBy(const SignedCheckpoint& note, const PublicKey& key) {
  return KeyHash(note.checkpoint.origin, key) == note.key_hash &&
         key.Verify(note.body, note.signature);
}

}  // namespace assay
