// Datasets written from captures, against trees that an independent writer made.

#include "storage/dataset/pack.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/dataset/verify.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string Fixture(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root,
                  "tests/data/metric/fidelity-dataset/datasets/" + name);
}

Json ReadDocument(const std::string& path) {
  const auto json = ReadJsonFile(path);
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : Json::object();
}

void Erase(Json& json, std::initializer_list<const char*> keys) {
  for (const char* key : keys) json.erase(key);
}

// What no program could compute of the fixture: everything else has to come out of the packer.
Json Describe(const std::string& dir) {
  const Json manifest = ReadDocument(dir + "/fidelity-dataset.json");
  const Json capture = ReadDocument(dir + "/capture/manifest.json");
  Json out = Json::object();
  out["created_utc"] = manifest["created_utc"];
  out["run_name"] = capture["run_name"];
  out["readme"] = *ReadFile(dir + "/README.md", 1 << 20);
  for (const char* key : {"dataset", "weights", "disclosures"}) out[key] = manifest[key];
  out["scope"] = manifest["scope"];
  out["scope"].erase("scope_digest");
  out["interop"] = {{"divergences", manifest["interop"]["divergences"]}};
  Json panel = ReadDocument(dir + "/panel/panel.json");
  Json records = panel["records"];
  for (Json& record : records) {
    Erase(record, {"token_file", "token_ids_json_sha256", "token_ids_sha256_legacy",
                   "token_ids_first16", "token_ids_last16", "num_tokens", "prediction_positions",
                   "attention_mask_file", "attention_mask_sha256"});
  }
  out["panel"] = {{"panel_id", panel["panel_id"]},
                  {"name", panel["name"]},
                  {"tokenizer", panel["tokenizer"]},
                  {"contamination", panel["contamination"]},
                  {"records", records}};
  const Json& head = manifest["head"];
  out["head"] = {
      {"bits", head["bits"]}, {"quantized", head["quantized"]}, {"source", head["source"]}};
  out["capture"] = {{"record", {{"elapsed_seconds", capture["records"][0]["elapsed_seconds"]}}}};
  Json runtime = ReadDocument(dir + "/runtime/capture-runtime.json");
  Erase(runtime, {"schema", "format_version", "receipt_sha256", "stack_fingerprint_sha256",
                  "lane_identity_sha256", "lane_identity_inputs"});
  runtime["source"] = manifest["runtime"]["source"];
  out["runtime"] = runtime;
  return out;
}

// The fixture's panel as a suite, its token files and hidden states as they lie there.
DatasetPackRequest RequestOf(const std::string& dir, const std::string& hidden_of) {
  DatasetPackRequest request;
  request.description = Describe(dir);
  const Json panel = ReadDocument(dir + "/panel/panel.json");
  request.suite.context_length = panel["context_length"];
  request.suite.vocab_size = panel["tokenizer"]["vocab_size"];
  for (const Json& record : panel["records"]) {
    SuiteContext context;
    context.index = record["index"];
    const Json tokens = ReadDocument(dir + "/" + record["token_file"].get<std::string>());
    context.tokens = tokens.get<std::vector<int32_t>>();
    request.suite.contexts.push_back(std::move(context));
    const std::string name = std::to_string(record["index"].get<int>());
    const std::string file = hidden_of + "/capture/hidden_000" + name + ".safetensors";
    request.hidden.push_back(FileExists(file) ? file : "");
  }
  request.head_file = dir + "/head/weight.safetensors";
  return request;
}

std::map<std::string, std::string> Tree(const std::string& dir) {
  std::map<std::string, std::string> out;
  for (const auto& file : fs::recursive_directory_iterator(dir)) {
    if (!file.is_regular_file()) continue;
    out[fs::relative(file.path(), dir).string()] = *ReadFile(file.path().string(), 1 << 30);
  }
  return out;
}

class PackDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-dataset-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    work_ = pattern;
    out_ = work_ + "/out";
  }
  void TearDown() override { fs::remove_all(work_); }
  void ExpectTree(const std::string& dir) {
    const auto want = Tree(dir), got = Tree(out_);
    for (const auto& [name, bytes] : want) {
      ASSERT_EQ(got.count(name), 1u) << name;
      EXPECT_EQ(got.at(name), bytes) << name;
    }
    EXPECT_EQ(got.size(), want.size());
  }
  std::string work_, out_;
};

TEST_F(PackDatasetTest, TheFixturesHiddenTreeByteForByte) {
  DatasetPackRequest request = RequestOf(Fixture("root"), Fixture("root"));
  request.description["metadata"] = {{"capture_role", "hidden_states_pre_lm_head"},
                                     {"cold_run", "root-first"},
                                     {"cut_point", "after_final_rmsnorm_before_lm_head"},
                                     {"dtype", "bfloat16"},
                                     {"window_id", ""}};
  const absl::Status status = PackDataset(request, out_);
  ASSERT_TRUE(status.ok()) << status;
  ExpectTree(Fixture("root"));
}

// The logits of this fixture are exact in float32, so the product of its states and head is them.
TEST_F(PackDatasetTest, TheFixturesLogitTreeByteForByte) {
  DatasetPackRequest request = RequestOf(Fixture("quant-logit"), Fixture("quant-head"));
  request.form = DatasetForm::kLogit;
  const absl::Status status = PackDataset(request, out_);
  ASSERT_TRUE(status.ok()) << status;
  ExpectTree(Fixture("quant-logit"));
}

TEST_F(PackDatasetTest, AShortDescriptionGivesADatasetThatVerifies) {
  DatasetPackRequest request = RequestOf(Fixture("root"), Fixture("root"));
  request.description = {{"dataset", {{"id", "fidelity--mine"}}}};
  request.masks = false;
  ASSERT_TRUE(PackDataset(request, out_).ok());
  const DatasetVerdict verdict = VerifyDataset(out_, {});
  EXPECT_TRUE(verdict.ok());
  // Two of four contexts: a subset, which verify accepts when it is asked to.
  request.hidden[1] = request.hidden[3] = "";
  ASSERT_TRUE(PackDataset(request, work_ + "/part").ok());
  EXPECT_FALSE(VerifyDataset(work_ + "/part", {}).ok());
  DatasetOptions partial;
  partial.allow_partial = true;
  EXPECT_TRUE(VerifyDataset(work_ + "/part", partial).ok());
}

TEST_F(PackDatasetTest, WhatWouldBeRefusedIsNotWritten) {
  const DatasetPackRequest good = RequestOf(Fixture("root"), Fixture("root"));
  const auto reason = [&](const DatasetPackRequest& request) {
    return ReasonOf(PackDataset(request, out_));
  };
  DatasetPackRequest request = good;
  request.description["typo"] = 1;
  EXPECT_EQ(reason(request), "DESCRIPTION_INVALID");
  request = good;
  request.description.erase("dataset");
  EXPECT_EQ(reason(request), "DESCRIPTION_INVALID");
  request = good;
  request.description["scope"]["policy"] = "uniform";  // a root is native throughout
  EXPECT_EQ(reason(request), "DATASET_REFUSED");
  request = good;
  request.description["determinism"] = {{"identical_across_runs", true}};  // of one run
  EXPECT_EQ(reason(request), "DATASET_REFUSED");
  request = good;
  request.hidden.assign(4, "");
  EXPECT_EQ(reason(request), "CONTEXT_MISSING");
  EXPECT_TRUE(fs::is_empty(work_));
  ASSERT_TRUE(EnsureDirectory(out_).ok());
  EXPECT_EQ(reason(good), "OUT_OCCUPIED");
}

}  // namespace
}  // namespace assay
