#include "client/html/suite_tokens.h"

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/token_list.h"

namespace assay {
namespace {

constexpr std::string_view kManifest = "suite-manifest.json";
constexpr uint64_t kTokenTextBytesMax = 16;  // of one id and what separates it from the next

}  // namespace

absl::StatusOr<SuiteTokens> SuiteTokens::Open(const std::string& dir) {
  const std::string path = JoinPath(dir, kManifest);
  if (!FileExists(path)) {
    return NotFoundError("FILE_MISSING",
                         path + ": there is no such file, so " + dir +
                             " is no suite; give --suite the folder that was scored");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kSuiteManifestBytesMax));
  SuiteTokens out;
  ASSAY_ASSIGN_OR_RETURN(out.suite_, ParseSuiteManifest(bytes, path));
  // Published shard views come without their link to the parent's token folder.
  const bool in_parent =
      out.suite_.manifest.contains("shard") && !IsDirectory(JoinPath(dir, "tokens"));
  out.dir_ = in_parent ? JoinPath(dir, "..") : dir;
  out.suite_.manifest = Json();
  for (size_t i = 0; i < out.suite_.contexts.size(); ++i) {
    out.rows_[out.suite_.contexts[i].index] = i;
  }
  return out;
}

absl::StatusOr<std::vector<int32_t>> SuiteTokens::Context(int64_t index) const {
  const auto row = rows_.find(index);
  if (row == rows_.end()) {
    return NotFoundError("CONTEXT_MISSING", dir_ + ": the suite has no context " +
                                                std::to_string(index) +
                                                "; give --suite the folder that was scored");
  }
  const SuiteContext& context = suite_.contexts[row->second];
  const std::string path = JoinPath(dir_, context.file);
  const uint64_t limit = 64 + kTokenTextBytesMax * static_cast<uint64_t>(suite_.context_length);
  ASSAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, limit));
  ASSAY_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, ParseTokenList(text, path));
  if (Sha256Hex(TokenFileBytes(tokens)) != context.token_sha256) {
    return DataLossError("DIGEST_MISMATCH", path +
                                                ": its token ids do not have the digest that the "
                                                "suite manifest states; fetch this file again");
  }
  return tokens;
}

}  // namespace assay
