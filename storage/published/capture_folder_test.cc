// Capture folders of every published form, whole and with one fault each.

#include "storage/published/capture_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "storage/base/digest.h"
#include "storage/base/files.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string Data(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

const PublishedCheck* Find(const PublishedExamination& examination, const std::string& gate) {
  for (const PublishedCheck& check : examination.checks) {
    if (check.gate == gate) return &check;
  }
  return nullptr;
}

std::string Failed(const PublishedExamination& examination) {
  std::string out;
  for (const PublishedCheck& check : examination.checks) {
    if (check.outcome == PublishedOutcome::kFail) out += (out.empty() ? "" : " ") + check.gate;
  }
  return out;
}

class CaptureFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-capture-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    dir_ = root_ + "/capture";
    fs::copy(Data("metric/qf/captures/cand-a"), dir_, fs::copy_options::recursive);
    for (const auto& file : fs::directory_iterator(dir_))
      fs::permissions(file, fs::perms::owner_write, fs::perm_options::add);
    const auto suite = ReadSuite(Data("metric/qf/suite"));
    ASSERT_TRUE(suite.ok()) << suite.status();
    suite_ = *suite;
    const auto json = ReadJsonFile(manifest());
    ASSERT_TRUE(json.ok());
    json_ = *json;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string manifest() const { return dir_ + "/capture-manifest.json"; }
  void Write(const Json& json) { ASSERT_TRUE(WriteFile(manifest(), PythonPrettyJson(json)).ok()); }
  // What the manifest of the v3 generation had (qwen-suites 2.7).
  Json Legacy() const {
    Json out = Json::object();
    for (const char* key : {"model", "quantization", "quantization_config", "kv_cache_dtype",
                            "suite_token_sha256", "contexts", "captures", "elapsed_sec"}) {
      out[key] = json_.at(key);
    }
    return out;
  }
  PublishedExamination Examine() {
    CaptureCheckOptions options;
    options.suite = &suite_;
    options.threads = 2;
    return ExamineCaptureFolder(dir_, options);
  }

  std::string root_, dir_;
  Suite suite_;
  Json json_;
};

TEST_F(CaptureFolderTest, PublishedFormsPass) {
  const PublishedExamination current = Examine();
  EXPECT_EQ(Failed(current), "");
  EXPECT_EQ(Find(current, "layout")->outcome, PublishedOutcome::kPass);
  EXPECT_EQ(Find(current, "contract")->outcome, PublishedOutcome::kPass);
  EXPECT_EQ(Find(current, "coverage")->outcome, PublishedOutcome::kPass);
  EXPECT_EQ(Find(current, "finite")->outcome, PublishedOutcome::kPass);

  Write(Legacy());
  const PublishedExamination legacy = Examine();
  EXPECT_EQ(Failed(legacy), "");
  EXPECT_NE(Find(legacy, "form")->detail.find("legacy-capture"), std::string::npos);
  EXPECT_EQ(Find(legacy, "complete")->outcome, PublishedOutcome::kNotApplicable);
  const auto folder = ReadCaptureFolder(dir_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(DescribeCaptureFolder(*folder, &suite_)["form"], "legacy");

  Json glm = json_;
  glm["schema"] = "glm53flash-fidelity-capture/2";
  fs::remove(manifest());
  ASSERT_TRUE(WriteFile(dir_ + "/capture-manifest-shard.json", PythonPrettyJson(glm)).ok());
  glm["contexts"] = 5120;  // the full manifest of a shard: never read
  ASSERT_TRUE(WriteFile(dir_ + "/capture-manifest-full.json", PythonPrettyJson(glm)).ok());
  const PublishedExamination as_served = Examine();
  EXPECT_EQ(Failed(as_served), "");
  EXPECT_NE(Find(as_served, "full manifest"), nullptr);

  for (const char* name : {"root", "quant-logit"}) {
    CaptureCheckOptions options;
    const auto dataset =
        ExamineCaptureFolder(Data("metric/fidelity-dataset/datasets/") + name, options);
    EXPECT_EQ(Failed(dataset), "") << name;
  }
}

TEST_F(CaptureFolderTest, DescribesWhatIsThere) {
  fs::remove(dir_ + "/hidden_0003.safetensors");
  const auto folder = ReadCaptureFolder(dir_);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const Json got = DescribeCaptureFolder(*folder, &suite_);
  EXPECT_EQ(got["contexts"], 14);
  EXPECT_EQ(got["positions"], 14 * 47);
  EXPECT_EQ(got["width"], 96);
  EXPECT_EQ(got["dtype"], "BF16");
  EXPECT_EQ(got["missing_files"], Json::array({"hidden_0003.safetensors"}));
  EXPECT_EQ(got["strata"].size(), 5u);
  EXPECT_EQ(got["manifest_sha256"], Sha256Hex(folder->manifest_bytes));
  EXPECT_EQ(got["not_stated"].size(), 1u) << got["not_stated"];
}

// Each fault fails exactly the gates that are about it.
TEST_F(CaptureFolderTest, EveryFaultFailsItsGate) {
  std::string hidden;  // of the copy at hand
  const auto flip = [&](size_t from_end) {
    std::string bytes = *ReadFile(hidden, 1 << 30);
    bytes[bytes.size() - from_end] ^= 1;
    ASSERT_TRUE(WriteFile(hidden, bytes).ok());
  };
  // Bytes of a whole new file, with its digest in the manifest.
  const auto record = [&](const std::string& bytes) {
    ASSERT_TRUE(WriteFile(hidden, bytes).ok());
    Json json = Legacy();
    json["captures"][5]["sha256"] = Sha256Hex(bytes);
    Write(json);
  };
  struct Fault {
    const char* gates;
    std::function<void()> make;
  };
  const std::vector<Fault> faults = {
      {"digests", [&] { flip(1); }},
      {"files", [&] { fs::remove(hidden); }},
      {"files", [&] { fs::copy(hidden, dir_ + "/hidden_0099.safetensors"); }},
      {"digests tensors", [&] { fs::resize_file(hidden, 100); }},
      {"links",
       [&] {
         fs::rename(hidden, root_ + "/outside");
         fs::create_symlink(root_ + "/outside", hidden);
       }},
      {"finite",
       [&] {
         std::string bytes = *ReadFile(hidden, 1 << 30);
         bytes[bytes.size() - 1] = '\x7f';
         bytes[bytes.size() - 2] = '\x80';  // the last value becomes infinity
         record(bytes);
       }},
      {"tensors",
       [&] {
         std::string bytes = *ReadFile(hidden, 1 << 30);
         bytes.replace(bytes.find("BF16"), 4, "F16\"");
         bytes.replace(bytes.find("F16\"\""), 5, "F16\" ");
         record(bytes);
       }},
      {"complete",
       [&] {
         Json json = json_;
         json["complete"] = false;
         Write(json);
       }},
      {"suite",
       [&] {
         Json json = Legacy();
         json["suite_token_sha256"] = Sha256Hex("another suite");
         Write(json);
       }},
      {"coverage",
       [&] {
         Json json = Legacy();
         json["captures"].erase(5);
         json["contexts"] = 13;
         Write(json);
         fs::remove(hidden);
       }},
      {"cut point",
       [&] {
         Json json = json_;
         json["cut_point"] = "embedding";
         Write(json);
       }},
      {"manifest",
       [&] {
         Json json = json_;
         json["captures"][5]["index"] = 4;
         Write(json);
       }},
      {"manifest",
       [&] {
         Json json = Legacy();  // a resumed capture of that generation
         json["contexts"] = 15;
         Write(json);
       }},
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    TearDown();
    SetUp();
    hidden = dir_ + "/hidden_0005.safetensors";
    faults[i].make();
    EXPECT_EQ(Failed(Examine()), faults[i].gates) << "fault " << i;
  }
}

// A snapshot of a Hugging Face cache is a capture like any folder.
TEST_F(CaptureFolderTest, LinksIntoTheCacheOfTheHubAreAllowed) {
  const std::string repo = root_ + "/datasets--org--name";
  const std::string snapshot = repo + "/snapshots/0123abcd/captures/a";
  fs::create_directories(snapshot);
  fs::create_directories(repo + "/blobs");
  for (const auto& file : fs::directory_iterator(dir_)) {
    const std::string name = file.path().filename().string();
    fs::rename(file.path(), repo + "/blobs/" + name);
    fs::create_symlink("../../../../blobs/" + name, snapshot + "/" + name);
  }
  CaptureCheckOptions options;
  EXPECT_EQ(Failed(ExamineCaptureFolder(snapshot, options)), "");
}

}  // namespace
}  // namespace assay
