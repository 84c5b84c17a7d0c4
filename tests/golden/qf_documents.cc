#include <cstdio>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/published_cumulative.h"
#include "storage/report/published_report.h"
#include "tests/golden/qf.h"

namespace assay::golden {
namespace {

constexpr uint64_t kBytesMax = uint64_t{1} << 28;

std::string Schema(const Json& document) {
  return document.is_object() ? document.value("schema", "") : "";
}

bool StartsWith(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

// "" when the document, written in the published layout, is `bytes`; else the first line that
// differs.
std::string WhyOther(const absl::StatusOr<Json>& document, const std::string& bytes) {
  if (!document.ok()) return Describe(document.status());
  const std::string written = PythonPrettyJson(*document);
  if (written == bytes) return "";
  size_t begin = 0, at = 0;
  for (; at < std::min(written.size(), bytes.size()) && written[at] == bytes[at]; ++at) {
    if (bytes[at] == '\n') begin = at + 1;
  }
  const auto line = [begin](const std::string& text) {
    return text.substr(std::min(begin, text.size()),
                       std::min<size_t>(text.find('\n', begin) - begin, 100));
  };
  return "\"" + line(written) + "\" instead of \"" + line(bytes) + "\"";
}

// Reads what a published document names; paths are relative to the folder.
class Source {
 public:
  explicit Source(const QfFolder& folder) : folder_(folder) {}

  absl::StatusOr<PublishedInput> Input(const std::string& path) const {
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes,
                           ReadFile(JoinPath(folder_.dir, path), kBytesMax));
    ASSAY_ASSIGN_OR_RETURN(Json document, ParseJson(bytes, path));
    return PublishedInput{path, Sha256Hex(bytes), std::move(document)};
  }
  absl::StatusOr<PublishedSide> Side(const Json& side) const {
    ASSAY_ASSIGN_OR_RETURN(PublishedInput input, Input(side.at("report").get<std::string>()));
    const Json& label = side.at("label");
    return PublishedSide{input.path, label.is_null() ? "" : label.get<std::string>(),
                         std::move(input.document)};
  }
  absl::StatusOr<Json> Pair(const Json& want) const;
  absl::StatusOr<Json> Aggregate(const Json& want, const std::string& name) const;
  absl::StatusOr<Json> PairLadder(const Json& want) const;

 private:
  const QfFolder& folder_;
};

absl::StatusOr<Json> Source::Pair(const Json& want) const {
  ASSAY_ASSIGN_OR_RETURN(const PublishedSide a, Side(want.at("a")));
  ASSAY_ASSIGN_OR_RETURN(const PublishedSide b, Side(want.at("b")));
  PublishedPairOptions options;
  options.samples = want.at("bootstrap_difference").at("samples").get<uint32_t>();
  return PairPublishedReports(a, b, options);
}

absl::StatusOr<Json> Source::Aggregate(const Json& want, const std::string& name) const {
  ASSAY_ASSIGN_OR_RETURN(AggregateOptions options, AggregateOptionsOf(want, name));
  Suite parent;
  if (!options.parent_path.empty()) {
    ASSAY_ASSIGN_OR_RETURN(parent, ReadSuite(JoinPath(folder_.dir, options.parent_path)));
    options.parent = &parent;
  }
  std::vector<PublishedInput> inputs;
  for (const auto& [path, digest] : want.at("inputs").items()) {
    ASSAY_ASSIGN_OR_RETURN(PublishedInput input, Input(path));
    inputs.push_back(std::move(input));
  }
  ASSAY_ASSIGN_OR_RETURN(const AggregateProse prose, AggregateProseOf(want, name));
  return AggregatePublishedReports(inputs, options, prose);
}

absl::StatusOr<Json> Source::PairLadder(const Json& want) const {
  std::vector<std::pair<std::string, PublishedInput>> inputs;
  for (const auto& [label, input] : want.at("inputs").items()) {
    ASSAY_ASSIGN_OR_RETURN(PublishedInput receipt, Input(input.at("path").get<std::string>()));
    inputs.emplace_back(label, std::move(receipt));
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [name, row] : want.at("comparisons").items()) {
    pairs.emplace_back(row.at("a").get<std::string>(), row.at("b").get<std::string>());
  }
  LadderPairingOptions options;
  options.manifest = want.at("suite").at("manifest").get<std::string>();
  options.scope = want.at("scope").get<std::string>();
  options.statistic = want.at("method").at("statistic").get<std::string>();
  options.operands = want.at("method").at("operands").get<std::string>();
  options.generated_utc = want.at("generated_utc").get<std::string>();
  return PairCumulativeReceipts(inputs, pairs, options);
}

// What the documents below `path` are, written again.
void CheckLayout(const QfFolder& folder, const std::string& path, Tally* tally) {
  const absl::StatusOr<std::string> bytes = ReadFile(JoinPath(folder.dir, path), kBytesMax);
  if (!bytes.ok()) {
    tally->Case("bytes " + path, Describe(bytes.status()));
    return;
  }
  tally->Case("bytes " + path, WhyOther(ParseJson(*bytes, path), *bytes));
}

void CheckFolders(const QfFolder& folder, const std::string& below, const std::string& file,
                  Tally* tally) {
  const auto names = ListDirectory(JoinPath(folder.dir, below));
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string path = below + "/" + name + "/" + file;
    if (FileExists(JoinPath(folder.dir, path))) CheckLayout(folder, path, tally);
  }
}

}  // namespace

bool QfFolder::IsReport(const std::string& name) const {
  return StartsWith(Schema(documents.at(name)), "qwen38-fidelity-report/");
}

absl::StatusOr<QfFolder> OpenQfFolder(const std::string& dir) {
  QfFolder out;
  out.dir = dir;
  const std::string reports = JoinPath(dir, "reports");
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(reports));
  for (const std::string& file : names) {
    if (file.size() < 6 || file.substr(file.size() - 5) != ".json") continue;
    const std::string name = file.substr(0, file.size() - 5);
    ASSAY_ASSIGN_OR_RETURN(out.bytes[name], ReadFile(JoinPath(reports, file), kBytesMax));
    ASSAY_ASSIGN_OR_RETURN(out.documents[name], ParseJson(out.bytes[name], file));
  }
  return out;
}

void CheckQfDocuments(const QfFolder& folder, Tally* tally) {
  const Source source(folder);
  for (const auto& [name, document] : folder.documents) {
    const std::string& bytes = folder.bytes.at(name);
    tally->Case("bytes reports/" + name, WhyOther(document, bytes));
    const std::string schema = Schema(document);
    const std::string what = "recomputed reports/" + name;
    try {
      if (folder.IsReport(name)) {
        tally->Case(what, WhyOther(RecomputePublishedReport(document, name), bytes));
      } else if (StartsWith(schema, "qwen38-fidelity-paired/3")) {
        tally->Case(what, WhyOther(source.Pair(document), bytes));
      } else if (StartsWith(schema, "qwen38-kld-ladder-cumulative/3")) {
        tally->Case(what, WhyOther(source.Aggregate(document, name), bytes));
      } else if (StartsWith(schema, "qwen38-kld-ladder-paired/2")) {
        tally->Case(what, WhyOther(source.PairLadder(document), bytes));
      } else {
        tally->Case(what, "schema \"" + schema + "\" is not known");
      }
    } catch (const nlohmann::json::exception& error) {
      tally->Case(what, std::string("a field has an unexpected form: ") + error.what());
    }
  }
  CheckLayout(folder, "suite/suite-manifest.json", tally);
  CheckFolders(folder, "suite", "suite-manifest.json", tally);
  CheckFolders(folder, "captures", "capture-manifest.json", tally);
}

}  // namespace assay::golden
