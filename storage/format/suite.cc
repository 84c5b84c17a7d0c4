#include "storage/format/suite.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/format/token_list.h"

namespace assay {
namespace {

constexpr std::string_view kManifestName = "suite-manifest.json";
constexpr std::string_view kSchemaKind = "distribution-fidelity";
constexpr uint64_t kTokenTextBytesMax = 16;  // per id in a token file, blanks included

absl::Status Bad(const std::string& where, const std::string& why) {
  return InvalidError("SUITE_INVALID", where + ": " + why + "; fetch the suite again");
}

// Names are printed and put into files that people look at: characters that steer a terminal or
// turn the direction of text are no part of a name.
bool HasControls(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto at = [&](size_t k) {
      return i + k < text.size() ? static_cast<uint8_t>(text[i + k]) : 0;
    };
    if (at(0) < 0x20 || at(0) == 0x7f) return true;
    if (at(0) == 0xc2 && at(1) >= 0x80 && at(1) <= 0x9f) return true;  // C1
    if (at(0) != 0xe2) continue;
    if (at(1) == 0x80 && (at(2) == 0x8e || at(2) == 0x8f || (at(2) >= 0xaa && at(2) <= 0xae)))
      return true;
    if (at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9) return true;  // isolates
  }
  return false;
}

absl::StatusOr<SuiteContext> ReadRow(const Json& json, const std::string& where,
                                     int64_t context_length) {
  const JsonFields row(json, where);
  ASSAY_RETURN_IF_ERROR(row.CheckObject());
  SuiteContext out;
  ASSAY_ASSIGN_OR_RETURN(out.index, row.Int("index", 0, kSuiteContextsMax - 1));
  ASSAY_ASSIGN_OR_RETURN(out.stratum, row.String("stratum"));
  ASSAY_ASSIGN_OR_RETURN(out.source_cluster, row.String("source_cluster"));
  ASSAY_ASSIGN_OR_RETURN(out.file, row.String("file"));
  ASSAY_ASSIGN_OR_RETURN(out.token_sha256, row.Sha256("token_sha256"));
  ASSAY_ASSIGN_OR_RETURN(const int64_t tokens, row.Int("tokens", 0, kSuiteContextLengthMax));
  out.partition = "analysis";  // /1 suites have no partitions; tools count them as analysis
  if (row.Has("partition")) {
    ASSAY_ASSIGN_OR_RETURN(out.partition, row.String("partition"));
  }
  if (row.Has("sentinel")) {
    ASSAY_ASSIGN_OR_RETURN(out.sentinel, row.Bool("sentinel"));
  }
  for (const std::string* name : {&out.stratum, &out.source_cluster, &out.partition}) {
    if (HasControls(*name)) return Bad(where, "a name holds control characters");
  }
  if (!IsSafeRelativePath(out.file)) {
    return InvalidError("PATH_UNSAFE", where + ": file \"" + out.file.substr(0, 200) +
                                           "\" must be a relative path inside the suite");
  }
  if (tokens != context_length) {
    return InvalidError("SHAPE_MISMATCH", where + ": holds " + std::to_string(tokens) +
                                              " tokens, the suite's contexts have " +
                                              std::to_string(context_length));
  }
  return out;
}

// Counts that the manifest repeats must agree with its rows, or it was edited by hand.
absl::Status CheckCounts(const Suite& suite, const JsonFields& fields, const std::string& where) {
  const int64_t contexts = static_cast<int64_t>(suite.contexts.size());
  const int64_t positions = suite.context_length - 1;
  const auto expect = [&](const JsonFields& in, std::string_view key,
                          int64_t value) -> absl::Status {
    if (!in.Has(key)) return absl::OkStatus();
    ASSAY_ASSIGN_OR_RETURN(const int64_t stated, in.Int(key, 0, INT64_MAX));
    if (stated == value) return absl::OkStatus();
    return Bad(in.where(), "\"" + std::string(key) + "\" says " + std::to_string(stated) +
                               ", its rows give " + std::to_string(value));
  };
  std::map<std::string, int64_t> strata, partitions;
  std::set<std::string> clusters;
  for (const SuiteContext& context : suite.contexts) {
    ++strata[context.stratum];
    ++partitions[context.partition];
    clusters.insert(context.source_cluster);
  }
  ASSAY_RETURN_IF_ERROR(expect(fields, "contexts", contexts));
  ASSAY_RETURN_IF_ERROR(expect(fields, "scored_positions_per_context", positions));
  ASSAY_RETURN_IF_ERROR(expect(fields, "total_scored_positions", contexts * positions));
  ASSAY_RETURN_IF_ERROR(expect(fields, "source_clusters", static_cast<int64_t>(clusters.size())));
  if (fields.Has("strata")) {
    ASSAY_ASSIGN_OR_RETURN(const Json* stated, fields.Object("strata"));
    const JsonFields in(*stated, where + ": strata");
    for (const auto& [name, count] : strata) ASSAY_RETURN_IF_ERROR(expect(in, name, count));
  }
  if (fields.Has("partitions")) {
    ASSAY_ASSIGN_OR_RETURN(const Json* stated, fields.Object("partitions"));
    const JsonFields in(*stated, where + ": partitions");
    for (const auto& [name, count] : partitions) ASSAY_RETURN_IF_ERROR(expect(in, name, count));
  }
  return absl::OkStatus();
}

// A view's `shard` block repeats the indices of its rows.
absl::Status CheckShard(const Suite& suite, const JsonFields& fields, const std::string& where) {
  if (!fields.Has("shard")) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const Json* shard, fields.Object("shard"));
  const JsonFields in(*shard, where + ": shard");
  if (!in.Has("context_indices")) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const Json* indices, in.Array("context_indices"));
  Json rows = Json::array();
  for (const SuiteContext& context : suite.contexts) rows.push_back(context.index);
  if (*indices != rows) return Bad(in.where(), "context_indices differ from the rows");
  return absl::OkStatus();
}

absl::Status ReadRows(const Json& rows, const std::string& where, Suite& suite) {
  if (rows.empty() || rows.size() > static_cast<size_t>(kSuiteContextsMax)) {
    return Bad(where, "context_index must have 1 to " + std::to_string(kSuiteContextsMax) +
                          " rows, it has " + std::to_string(rows.size()));
  }
  std::set<int64_t> indices;
  std::set<std::string> files;
  Sha256 digest;
  suite.contexts.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string row = where + ": context_index[" + std::to_string(i) + "]";
    ASSAY_ASSIGN_OR_RETURN(SuiteContext context, ReadRow(rows[i], row, suite.context_length));
    if (!indices.insert(context.index).second)
      return Bad(row, "index " + std::to_string(context.index) + " appears twice");
    std::string folded = context.file;  // one file on systems that ignore case
    for (char& c : folded) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (!files.insert(std::move(folded)).second)
      return Bad(row, "file " + context.file + " appears twice, or another differs only in case");
    digest.Update(context.token_sha256);
    suite.contexts.push_back(std::move(context));
  }
  if (digest.FinishHex() != suite.suite_token_sha256) {
    return DataLossError("DIGEST_MISMATCH",
                         where +
                             ": suite_token_sha256 is not the digest of its rows' "
                             "token_sha256; the manifest was changed, fetch it again");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ReadTokens(const Suite& suite, const SuiteContext& context,
                                                const std::string& path) {
  if (!FileExists(path)) {
    return NotFoundError("FILE_MISSING",
                         path +
                             ": the suite manifest names it, but it is not there; fetch the "
                             "suite again");
  }
  const uint64_t limit = 64 + kTokenTextBytesMax * static_cast<uint64_t>(suite.context_length);
  ASSAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, limit));
  ASSAY_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, ParseTokenList(text, path));
  if (Sha256Hex(TokenFileBytes(tokens)) != context.token_sha256) {
    return DataLossError("DIGEST_MISMATCH",
                         path +
                             ": its token ids do not have the digest that the suite manifest "
                             "states; fetch this file again");
  }
  if (static_cast<int64_t>(tokens.size()) != suite.context_length) {
    return InvalidError("SHAPE_MISMATCH", path + ": holds " + std::to_string(tokens.size()) +
                                              " token ids instead of " +
                                              std::to_string(suite.context_length));
  }
  return tokens;
}

}  // namespace

absl::StatusOr<Suite> ParseSuiteManifest(std::string_view manifest_bytes, std::string_view name) {
  const std::string where(name);
  Suite suite;
  ASSAY_ASSIGN_OR_RETURN(suite.manifest, ParseJson(manifest_bytes, where));
  const JsonFields fields(suite.manifest, where);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(suite.schema, fields.String("schema"));
  if (!ParsePublishedSchema(suite.schema).Is(kSchemaKind)) {
    return Bad(where, "schema \"" + suite.schema.substr(0, 80) + "\" is not supported, " +
                          "qwen38- and glm53flash-distribution-fidelity/1 to 6 are");
  }
  ASSAY_ASSIGN_OR_RETURN(suite.context_length,
                         fields.Int("context_length", 2, kSuiteContextLengthMax));
  for (const auto& [key, member] :
       {std::pair("vocab_size", &suite.vocab_size), std::pair("hidden_size", &suite.hidden_size)}) {
    if (!fields.Has(key)) continue;
    ASSAY_ASSIGN_OR_RETURN(*member, fields.Int(key, 1, INT32_MAX));
  }
  if (fields.Has("model")) {
    ASSAY_ASSIGN_OR_RETURN(suite.model, fields.String("model"));
  }
  ASSAY_ASSIGN_OR_RETURN(suite.suite_token_sha256, fields.Sha256("suite_token_sha256"));
  ASSAY_ASSIGN_OR_RETURN(const Json* rows, fields.Array("context_index"));
  ASSAY_RETURN_IF_ERROR(ReadRows(*rows, where, suite));
  ASSAY_RETURN_IF_ERROR(CheckCounts(suite, fields, where));
  ASSAY_RETURN_IF_ERROR(CheckShard(suite, fields, where));
  suite.manifest_sha256 = Sha256Hex(manifest_bytes);
  return suite;
}

absl::StatusOr<Suite> ReadSuite(const std::string& dir) {
  const std::string manifest_path = JoinPath(dir, kManifestName);
  if (!FileExists(manifest_path)) {
    return NotFoundError("FILE_MISSING",
                         manifest_path + ": there is no such file, so " + dir +
                             " is no suite; give the folder that holds suite-manifest.json and the "
                             "token files");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(manifest_path, kSuiteManifestBytesMax));
  ASSAY_ASSIGN_OR_RETURN(Suite suite, ParseSuiteManifest(bytes, manifest_path));
  // Published shard views come without their link to the parent's token folder.
  const bool in_parent = suite.manifest.contains("shard") && !IsDirectory(JoinPath(dir, "tokens"));
  const std::string base = in_parent ? JoinPath(dir, "..") : dir;
  for (SuiteContext& context : suite.contexts) {
    ASSAY_ASSIGN_OR_RETURN(context.tokens,
                           ReadTokens(suite, context, JoinPath(base, context.file)));
  }
  if (suite.vocab_size > 0) {
    ASSAY_RETURN_IF_ERROR(Annotate(CheckTokensBelow(suite, suite.vocab_size), dir));
  }
  return suite;
}

absl::Status CheckTokensBelow(const Suite& suite, int64_t vocab_size) {
  for (const SuiteContext& context : suite.contexts) {
    for (size_t i = 0; i < context.tokens.size(); ++i) {
      const int32_t id = context.tokens[i];
      if (id >= 0 && id < vocab_size) continue;
      return InvalidError("TOKEN_OUT_OF_RANGE",
                          context.file + ": context " + std::to_string(context.index) +
                              ", position " + std::to_string(i) + ": token id " +
                              std::to_string(id) + " is outside the vocabulary of " +
                              std::to_string(vocab_size) +
                              "; the suite was made for another tokenizer or model");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<size_t>> SelectContexts(const Suite& suite, std::string_view filter) {
  std::vector<size_t> out;
  for (size_t i = 0; i < suite.contexts.size(); ++i) {
    const SuiteContext& context = suite.contexts[i];
    const bool selected = filter.empty() || filter == "all" ||
                          (filter == "sentinel" ? context.sentinel : context.partition == filter);
    if (selected) out.push_back(i);
  }
  if (out.empty()) {
    std::set<std::string> partitions;
    for (const SuiteContext& context : suite.contexts) partitions.insert(context.partition);
    std::string names;
    for (const std::string& name : partitions) names += (names.empty() ? "" : ", ") + name;
    return InvalidError("FILTER_EMPTY",
                        "filter \"" + std::string(filter) +
                            "\" selects no context of the suite; use all, sentinel or one of its "
                            "partitions: " +
                            names);
  }
  return out;
}

std::vector<size_t> LimitContexts(const Suite& suite, const std::vector<size_t>& selected,
                                  int64_t limit) {
  if (limit <= 0 || static_cast<uint64_t>(limit) >= selected.size()) return selected;
  std::vector<std::vector<size_t>> strata;  // of places in `selected`
  std::map<std::string, size_t> number;
  for (size_t i = 0; i < selected.size(); ++i) {
    const auto [it, added] = number.emplace(suite.contexts[selected[i]].stratum, strata.size());
    if (added) strata.emplace_back();
    strata[it->second].push_back(i);
  }
  std::vector<size_t> quota(strata.size());
  for (int64_t left = limit; left > 0;) {
    for (size_t s = 0; s < strata.size() && left > 0; ++s) {
      if (quota[s] == strata[s].size()) continue;
      ++quota[s];
      --left;
    }
  }
  std::vector<size_t> places;
  for (size_t s = 0; s < strata.size(); ++s) {
    for (size_t i = 0; i < quota[s]; ++i) {
      places.push_back(strata[s][(2 * i + 1) * strata[s].size() / (2 * quota[s])]);
    }
  }
  std::sort(places.begin(), places.end());
  std::vector<size_t> out;
  for (const size_t place : places) out.push_back(selected[place]);
  return out;
}

}  // namespace assay
