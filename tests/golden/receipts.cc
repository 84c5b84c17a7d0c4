// Kind "receipts": published documents of any kind below a folder; each must be recognized,
// nothing in it may differ from what follows from itself, and what is made of other documents of
// the folder must come out of those again, byte for byte.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <vector>

#include "storage/base/files.h"
#include "storage/format/published_schema.h"
#include "storage/published/examine.h"
#include "storage/published/recompute.h"
#include "tests/golden/golden.h"

namespace assay::golden {

namespace {

// Suites and documents of the folder, which others may be made of.
struct Sources {
  PublishedInputs inputs;
  std::map<std::string, Suite> suites;  // by the manifest's digest
};

Sources Collect(const std::vector<std::string>& files) {
  Sources out;
  for (const std::string& file : files) {
    if (!out.inputs.Add(file).ok()) continue;
    const auto bytes = ReadFile(file, kSuiteManifestBytesMax);
    if (!bytes.ok() || bytes->find("\"context_index\"") == std::string::npos) continue;
    auto suite = ParseSuiteManifest(*bytes, file);
    if (suite.ok()) out.suites.emplace(suite->manifest_sha256, std::move(*suite));
  }
  return out;
}

void Recompute(const std::string& file, const std::string& bytes, const Sources& sources,
               Tally* tally) {
  const auto document = ParseJson(bytes, file);
  const PublishedSchema schema = document.ok() ? PublishedSchemaOf(*document) : PublishedSchema();
  const bool made_of_others = schema.Is("fidelity-paired") || schema.Is("kld-ladder-cumulative") ||
                              schema.Is("kld-ladder-paired");
  if (!made_of_others) return;
  const Json::json_pointer parent("/suite/parent/manifest_sha256");
  const Suite* suite = nullptr;
  if (document->contains(parent) && document->at(parent).is_string()) {
    const auto found = sources.suites.find(document->at(parent).get<std::string>());
    if (found != sources.suites.end()) suite = &found->second;
  }
  PublishedExamination examination;
  AddRecomputed(bytes, RecomputePublished(bytes, file, sources.inputs, suite), &examination);
  const PublishedCheck& check = examination.checks.front();
  if (check.outcome == PublishedOutcome::kNotChecked) {
    printf("%s: is not recomputed: %s\n", file.c_str(), check.detail.c_str());
  } else {
    tally->Case(file + " recomputed", check.outcome == PublishedOutcome::kPass ? "" : check.detail);
  }
}

}  // namespace

int RunReceipts(const Options& options) {
  Tally tally;
  std::vector<std::string> files;
  std::error_code failed;
  for (const auto& file : std::filesystem::recursive_directory_iterator(options.dir, failed)) {
    if (file.path().extension() == ".json") files.push_back(file.path().string());
  }
  std::sort(files.begin(), files.end());
  const Sources sources = Collect(files);
  for (const std::string& file : files) {
    const auto bytes = ReadFile(file, uint64_t{1} << 30);
    const auto examination = bytes.ok() ? ExaminePublished(*bytes, file)
                                        : absl::StatusOr<PublishedExamination>(bytes.status());
    if (!examination.ok()) {
      tally.Case(file, Describe(examination.status()));
      continue;
    }
    for (const PublishedCheck& check : examination->checks) {
      if (check.outcome == PublishedOutcome::kNotChecked ||
          check.outcome == PublishedOutcome::kNotApplicable) {
        printf("%s: %s is %s: %s\n", file.c_str(), check.gate.c_str(),
               check.outcome == PublishedOutcome::kNotChecked ? "not checked" : "not applicable",
               check.detail.c_str());
        continue;
      }
      tally.Case(file + " " + check.gate,
                 check.outcome == PublishedOutcome::kPass ? "" : check.detail);
    }
    Recompute(file, *bytes, sources, &tally);
  }
  return tally.Finish();
}

}  // namespace assay::golden
