// Peer-made documents of tests/data (reports, pairs, aggregates, datasets, receipts), and published
// ones where they are at hand.

#include "storage/published/examine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

std::string Root() {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return root == nullptr ? "." : root;
}

std::string Read(const std::string& path) {
  const auto bytes = ReadFile(path, uint64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

std::string Failed(const PublishedExamination& examination) {
  std::string out;
  for (const PublishedCheck& check : examination.checks) {
    if (check.outcome == PublishedOutcome::kFail) out += check.gate + ": " + check.detail + "; ";
  }
  return out;
}

int Passed(const PublishedExamination& examination) {
  int out = 0;
  for (const PublishedCheck& check : examination.checks)
    out += check.outcome == PublishedOutcome::kPass ? 1 : 0;
  return out;
}

std::vector<std::string> JsonFiles(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() == ".json") out.push_back(file.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Examine, PeersDocumentsPass) {
  int files = 0;
  for (const std::string& path : JsonFiles(Root() + "/tests/data/metric/qf/reports")) {
    const auto got = ExaminePublished(Read(path), path);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(Failed(*got), "") << path;
    EXPECT_GT(Passed(*got), 0) << path;
    ++files;
  }
  EXPECT_GE(files, 20);
}

TEST(Examine, DatasetsAndReceiptsPass) {
  const std::string data = Root() + "/tests/data/metric/fidelity-dataset";
  for (const char* file :
       {"/datasets/root/fidelity-dataset.json", "/datasets/quant/capture/manifest.json",
        "/datasets/quant/panel/panel.json", "/datasets/other-lane/runtime/capture-runtime.json",
        "/datasets/root/head/head.json", "/compare/quant/comparison-receipt.json",
        "/compare/repeat/comparison-receipt.json", "/compare/rerun/comparison-receipt.json",
        "/compare/other-lane-allowed/comparison-receipt.json"}) {
    const auto got = ExaminePublished(Read(data + file), file);
    ASSERT_TRUE(got.ok()) << file << got.status();
    EXPECT_EQ(Failed(*got), "") << file;
  }
}

// Every digit that follows from others: change one and it is noticed.
TEST(Examine, ChangedFiguresFail) {
  const std::string reports = Root() + "/tests/data/metric/qf/reports/";
  const auto fails = [](const std::string& path, const std::function<void(Json*)>& change,
                        bool pretty = true) {
    auto document = ParseJson(Read(path), path);
    EXPECT_TRUE(document.ok());
    change(&*document);
    const auto got =
        ExaminePublished(pretty ? PythonPrettyJson(*document) : document->dump(), path);
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() && !got->ok();
  };
  EXPECT_FALSE(fails(reports + "a.json", [](Json*) {}));
  const auto nudge = [](Json& number) { number = number.get<double>() * (1 + 1e-9); };
  EXPECT_TRUE(fails(reports + "a.json", [&](Json* d) { nudge((*d)["context_macro_mean_kld"]); }));
  EXPECT_TRUE(
      fails(reports + "a.json", [&](Json* d) { nudge((*d)["context_bootstrap"]["ci95_low"]); }));
  EXPECT_TRUE(
      fails(reports + "paired-a-b.json", [&](Json* d) { nudge((*d)["difference_a_minus_b"]); }));
  EXPECT_TRUE(fails(reports + "paired-a-b.json",
                    [&](Json* d) { (*d)["a_wins"] = (*d)["a_wins"].get<int>() + 1; }));
  const auto resealed = [&](const std::function<void(Json*)>& change) {
    return fails(reports + "cumulative-a.json", [&](Json* d) {
      change(d);
      Json hashed = *d;
      for (const char* key : {"generated_unix", "content_sha256", "content_sha256_excludes"})
        hashed.erase(key);
      (*d)["content_sha256"] = Sha256Hex(PythonCanonJson(hashed));
    });
  };
  EXPECT_FALSE(resealed([](Json*) {}));
  EXPECT_TRUE(fails(reports + "cumulative-a.json", [&](Json* d) { (*d)["label"] = "other"; }));
  EXPECT_TRUE(resealed([&](Json* d) { nudge((*d)["token_mean_kld"]); }));
  EXPECT_TRUE(resealed([&](Json* d) { nudge((*d)["context_bootstrap"]["ci95_high"]); }));
  EXPECT_TRUE(resealed([&](Json* d) { nudge((*d)["tail"]["quantiles"]["p99"]["lower"]); }));
  EXPECT_TRUE(resealed([&](Json* d) { (*d)["tail"]["counts"] = Json::array(); }));
  EXPECT_TRUE(resealed([&](Json* d) { nudge((*d)["strata"].begin().value()["macro_mean_kld"]); }));
  EXPECT_TRUE(resealed([&](Json* d) { nudge((*d)["per_context_all"][0]["mean_kld"]); }));
  const std::string data = Root() + "/tests/data/metric/fidelity-dataset";
  EXPECT_TRUE(fails(data + "/datasets/root/fidelity-dataset.json",
                    [](Json* d) { (*d)["dataset"]["name"] = "x"; }));
  EXPECT_TRUE(fails(data + "/compare/repeat/comparison-receipt.json",
                    [](Json* d) { (*d)["top1_agreement"] = 0.5; }));
}

TEST(Examine, UnknownAndHostileDocuments) {
  for (const char* bytes : {"{}", "[]", "3", "{\"schema\":\"x/1\"}", "{\"schema\":7}"}) {
    EXPECT_EQ(ReasonOf(ExaminePublished(bytes, "x").status()), "PUBLISHED_UNKNOWN") << bytes;
  }
  EXPECT_EQ(ReasonOf(ExaminePublished("{", "x").status()), "JSON_INVALID");
  for (const char* schema :
       {"qwen38-distribution-fidelity/6", "qwen38-fidelity-capture/2", "qwen38-fidelity-report/3",
        "qwen38-fidelity-paired/3", "qwen38-kld-ladder-cumulative/3", "qwen38-kld-ladder-paired/2",
        "malaiwah.fidelity-dataset.v1", "malaiwah.fidelity-comparison-receipt.v1",
        "malaiwah.glm53-joint-kld-protocol.v1"}) {
    const auto got = ExaminePublished(std::string("{\"schema\":\"") + schema + "\"}", "x");
    ASSERT_TRUE(got.ok()) << schema << got.status();
    EXPECT_FALSE(got->ok()) << schema;
  }
}

TEST(Examine, PublishedDocumentsPass) {
  int files = 0;
  for (const char* folder :
       {"/../shared/data/published-receipts", "/../shared/data/fidelity-dataset-examples"}) {
    if (!IsDirectory(Root() + folder)) continue;
    for (const std::string& path : JsonFiles(Root() + folder)) {
      const auto got = ExaminePublished(Read(path), path);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(Failed(*got), "") << path;
      ++files;
    }
  }
  if (files == 0) GTEST_SKIP() << "no published documents beside the source";
}

}  // namespace
}  // namespace assay
