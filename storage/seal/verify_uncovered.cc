#include "storage/seal/verify_uncovered.h"

#include <algorithm>
#include <set>
#include <vector>

#include "storage/base/files.h"
#include "storage/report/candidate_files.h"
#include "storage/seal/verify_summary.h"

namespace assay {
namespace {

constexpr size_t kShownMax = 20;

using Names = std::set<std::string, std::less<>>;

// Adds the entries of `folder` that are not `known`, as paths below the result; folders end in '/'.
void AddOthers(const std::string& folder, const std::string& prefix, const Names& known,
               std::vector<std::string>* others) {
  const auto names = ListDirectory(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (known.count(name) > 0) continue;
    others->push_back(prefix + name + (IsDirectory(JoinPath(folder, name)) ? "/" : ""));
  }
}

void Tell(const std::vector<std::string>& others, const std::string& subject, GateList* gates) {
  if (others.empty()) return;
  std::string list;
  for (size_t i = 0; i < std::min(others.size(), kShownMax); ++i) {
    list += (i > 0 ? ", " : "") + others[i];
  }
  if (others.size() > kShownMax) {
    list += " and " + std::to_string(others.size() - kShownMax) + " more";
  }
  gates->Skip(subject, "not-covered", "not part of a result, nothing here vouches for: " + list);
}

// A page for people is made from what the other gates check, and says nothing of its own.
void TellPage(const std::string& path, const std::string& subject, GateList* gates) {
  if (!FileExists(path)) return;
  gates->Skip(subject, "page",
              path +
                  " is not sealed; it can be made again from the files checked here, with: assay "
                  "report html");
}

}  // namespace

void ListUncoveredOfCandidate(const std::string& folder, const std::string& receipt_name,
                              const Json& report, const std::string& subject, GateList* gates) {
  std::vector<std::string> others;
  Names known = {
      std::string(kReportFile),    std::string(kExecutionFile),   receipt_name,
      std::string(kPublicKeyFile), std::string(kPositionsFolder), std::string(kCandidatePageFile),
      std::string(kKeyListFile)};
  TellPage(JoinPath(folder, kCandidatePageFile), subject, gates);
  AddOthers(folder, "", known, &others);
  const std::string positions = JoinPath(folder, kPositionsFolder);
  const std::string prefix = std::string(kPositionsFolder) + "/";
  Names heads;
  if (report.is_object()) {
    for (const auto& [head, entry] : report.at("heads").items()) {
      heads.insert(head);
      Names arrays;
      for (const auto& [file, array] : entry.at("arrays").items()) arrays.insert(file);
      AddOthers(JoinPath(positions, head), prefix + head + "/", arrays, &others);
    }
  }
  AddOthers(positions, prefix, heads, &others);
  Tell(others, subject, gates);
}

void ListUncoveredOfRun(const std::string& out, GateList* gates) {
  Names known = {std::string(kPublicKeyFile), std::string(kKeyListFile),
                 std::string(kIndexPageFile)};
  TellPage(JoinPath(out, kIndexPageFile), out, gates);
  if (FileExists(JoinPath(out, kSummaryFile))) {
    known.emplace(kSummaryFile);
    known.insert(kSummaryTexts.begin(), kSummaryTexts.end());
  }
  const auto names = ListDirectory(out);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string folder = JoinPath(out, name);
    const bool candidate =
        FileExists(JoinPath(folder, kReportFile)) || FileExists(JoinPath(folder, kReceiptFile));
    if (candidate) known.insert(name);
  }
  std::vector<std::string> others;
  AddOthers(out, "", known, &others);
  Tell(others, out, gates);
}

}  // namespace assay
