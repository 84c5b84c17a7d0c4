// Assay's own reports in the published form, and what the form cannot say.

#include "storage/report/published_export.h"

#include <gtest/gtest.h>

#include <functional>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/report/published_cumulative.h"
#include "storage/report/published_report.h"
#include "storage/report/report_test_data.h"

namespace assay {
namespace {

PublishedExportInfo Info(int generation) {
  PublishedExportInfo info;
  info.generation = generation;
  info.reference = "reference";
  info.candidate = "q4_0";
  info.head = "head.safetensors";
  info.head_sha256 = Sha256Hex("reference head");
  info.candidate_head = "other.safetensors";
  info.candidate_head_sha256 = Sha256Hex("candidate head");
  return info;
}

Json ReportWith(const std::function<void(ReportInputs*)>& change) {
  ReportInputs inputs = SmolInputs("q4_0");
  change(&inputs);
  return Must(BuildReport(inputs));
}

TEST(PublishedExport, FiguresAreTheReports) {
  const Json report = ReportWith([](ReportInputs*) {});
  const auto got = ExportPublishedReport(report, "own", Info(2));
  ASSERT_TRUE(got.ok()) << got.status();
  const Json& own = report.at("heads").at("own");
  const Json& kl = own.at("statistics").at("kl_ref_cand");
  EXPECT_EQ(got->at("schema"), "qwen38-fidelity-report/2");
  EXPECT_EQ(got->at("suite_token_sha256"), report.at("suite").at("suite_token_sha256"));
  EXPECT_EQ(got->at("contexts"), own.at("contexts").size());
  EXPECT_EQ(got->at("token_mean_kld"), kl.at("mean").at("value"));
  EXPECT_EQ(got->at("p999_kld"), kl.at("p999"));
  EXPECT_EQ(got->at("kld_tail").at("counts"), kl.at("tail").at("counts"));
  EXPECT_EQ(got->at("context_macro_mean_kld"), kl.at("context_macro_mean").at("value"));
  EXPECT_EQ(got->at("context_bootstrap").at("ci95_low"), kl.at("context_bootstrap").at("ci95_low"));
  EXPECT_EQ(got->at("top1_agreement"),
            own.at("statistics").at("agreement").at("same_top1").at("fraction"));
  EXPECT_EQ(got->at("per_context")[3].at("max_kld"), own.at("contexts")[3].at("max_kl_ref_cand"));
  EXPECT_EQ(got->at("comparator").at("policy"), "assay:exact");
  // It is a report of the form, and the aggregator takes it.
  const std::string bytes = PythonPrettyJson(*got);
  const auto again = ReexportPublishedReport(bytes, "export", 2);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, bytes);
  AggregateOptions options;
  options.shard_size = 0;
  const auto welded = AggregatePublishedReports({{"export", Sha256Hex(bytes), *got}}, options,
                                                OwnAggregateProse(true));
  ASSERT_TRUE(welded.ok()) << welded.status();
  EXPECT_EQ(welded->at("context_macro_mean_kld"), got->at("context_macro_mean_kld"));
}

TEST(PublishedExport, TheFirstGenerationHasNoTail) {
  const auto got = ExportPublishedReport(ReportWith([](ReportInputs*) {}), "own", Info(1));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_FALSE(got->contains("kld_tail"));
  EXPECT_FALSE(got->contains("scored_position_window"));
}

TEST(PublishedExport, WhatTheFormCannotSayIsRefused) {
  const auto reason = [](const std::function<void(ReportInputs*)>& change, int generation) {
    return ReasonOf(ExportPublishedReport(ReportWith(change), "own", Info(generation)).status());
  };
  EXPECT_EQ(reason([](ReportInputs*) {}, 3), "EXPORT_LOSSY");
  EXPECT_EQ(reason([](ReportInputs* i) { i->suite.limit = 8; }, 2), "EXPORT_LOSSY");
  EXPECT_EQ(reason([](ReportInputs* i) { i->numeric.softcap = 30.0; }, 2), "EXPORT_LOSSY");
  EXPECT_EQ(reason([](ReportInputs* i) { i->numeric.valid_vocab = 10; }, 2), "EXPORT_LOSSY");
  const auto windowed = [](ReportInputs* i) { i->suite.score_from = 1; };
  EXPECT_EQ(reason(windowed, 2), "EXPORT_LOSSY");
  EXPECT_EQ(reason(windowed, 3), "");
  PublishedExportInfo info = Info(2);
  info.head_sha256.clear();
  EXPECT_EQ(ReasonOf(ExportPublishedReport(ReportWith([](ReportInputs*) {}), "own", info).status()),
            "EXPORT_INCOMPLETE");
  EXPECT_EQ(
      ReasonOf(ExportPublishedReport(ReportWith([](ReportInputs*) {}), "none", info).status()),
      "HEAD_NOT_SCORED");
}

TEST(PublishedExport, PublishedReportsAreTheSameBytes) {
  const std::string folder =
      std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/tests/data/metric/qf/reports/";
  const std::string bytes = *ReadFile(folder + "a-from16.json", 1 << 24);
  EXPECT_EQ(*ReexportPublishedReport(bytes, "a", 3), bytes);
  EXPECT_EQ(ReasonOf(ReexportPublishedReport(bytes, "a", 2).status()), "EXPORT_LOSSY");
  EXPECT_EQ(ReasonOf(ReexportPublishedReport(bytes + "\n", "a", 3).status()), "EXPORT_LOSSY");
}

}  // namespace
}  // namespace assay
