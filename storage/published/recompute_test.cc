// Documents computed again from the documents that they name: peer-made ones of tests/data, and
// published ones where they are at hand.

#include "storage/published/recompute.h"

#include <gtest/gtest.h>

#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

std::string Root() { return std::getenv("ASSAY_SOURCE_DIR"); }

std::string Read(const std::string& path) { return *ReadFile(path, uint64_t{1} << 30); }

Suite SuiteAt(const std::string& path) {
  auto suite = ParseSuiteManifest(Read(path), path);
  EXPECT_TRUE(suite.ok()) << suite.status();
  return *suite;
}

std::string Outcome(const std::string& bytes, const absl::StatusOr<Json>& document) {
  PublishedExamination examination;
  AddRecomputed(bytes, document, &examination);
  EXPECT_EQ(examination.checks.size(), 1u);
  const PublishedCheck& check = examination.checks.front();
  return check.outcome == PublishedOutcome::kPass ? "pass" : check.detail;
}

TEST(Recompute, PeersDocumentsFromTheirInputs) {
  const std::string folder = Root() + "/tests/data/metric/qf";
  PublishedInputs inputs;
  ASSERT_TRUE(inputs.Add(folder + "/reports").ok());
  const Suite suite = SuiteAt(folder + "/suite/suite-manifest.json");
  for (const char* name : {"a", "paired-a-b", "paired-a-c", "paired-a-b-fp32", "paired-own-shared",
                           "cumulative-a", "cumulative-b", "ladder-paired"}) {
    const std::string bytes = Read(folder + "/reports/" + name + ".json");
    EXPECT_EQ(Outcome(bytes, RecomputePublished(bytes, name, inputs, &suite)), "pass") << name;
  }
}

TEST(Recompute, WhatIsMissingIsNamed) {
  const std::string folder = Root() + "/tests/data/metric/qf";
  const std::string paired = Read(folder + "/reports/paired-a-b.json");
  const std::string cumulative = Read(folder + "/reports/cumulative-a.json");
  EXPECT_EQ(ReasonOf(RecomputePublished(paired, "p", {}, nullptr).status()), "INPUT_MISSING");
  EXPECT_EQ(ReasonOf(RecomputePublished(cumulative, "c", {}, nullptr).status()), "SUITE_MISSING");
  const Suite suite = SuiteAt(folder + "/suite/suite-manifest.json");
  EXPECT_EQ(ReasonOf(RecomputePublished(cumulative, "c", {}, &suite).status()), "INPUT_MISSING");
  EXPECT_EQ(ReasonOf(RecomputePublished("{\"schema\":\"x\"}", "x", {}, nullptr).status()),
            "PUBLISHED_UNKNOWN");
  PublishedInputs inputs;
  EXPECT_EQ(ReasonOf(inputs.Add(folder + "/none")), "FILE_MISSING");
}

// A figure that its inputs contradict is found although the document agrees with itself.
TEST(Recompute, AChangedFigureIsFound) {
  const std::string folder = Root() + "/tests/data/metric/qf";
  PublishedInputs inputs;
  ASSERT_TRUE(inputs.Add(folder + "/reports").ok());
  Json paired = *ParseJson(Read(folder + "/reports/paired-a-b.json"), "p");
  paired["median_difference"] = paired["median_difference"].get<double>() * 1.001;
  const std::string bytes = PythonPrettyJson(paired);
  EXPECT_NE(
      Outcome(bytes, RecomputePublished(bytes, "p", inputs, nullptr)).find("median_difference"),
      std::string::npos);
}

TEST(Recompute, PublishedDocuments) {
  const std::string folder = Root() + "/../shared/data/published-receipts";
  if (!IsDirectory(folder)) GTEST_SKIP() << "no published documents beside the source";
  PublishedInputs inputs;
  ASSERT_TRUE(inputs.Add(folder).ok());
  const Suite suite = SuiteAt(folder + "/kld5-suite-manifest.json");
  for (const char* name : {"kld5-1M-turbo6", "v3-paired-hyd-vs-online", "v3-report-hyd",
                           "shortlist-report-turbo6", "kld5-window-k5k6-from256"}) {
    const std::string bytes = Read(folder + "/" + name + ".json");
    EXPECT_EQ(Outcome(bytes, RecomputePublished(bytes, name, inputs, &suite)), "pass") << name;
  }
}

}  // namespace
}  // namespace assay
