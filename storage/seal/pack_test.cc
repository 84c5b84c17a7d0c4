// Results as one file: the same answers as the folder gives, and files that must be refused.

#include "storage/seal/pack.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/base/tar.h"
#include "storage/seal/seal_test_data.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

class PackTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-pack-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    work_ = pattern;
    out_ = work_ + "/out";
    file_ = work_ + "/result.tar";
    WriteTestRun(out_, *TestSigner());
  }
  void TearDown() override { fs::remove_all(work_); }

  std::string Bytes(const std::string& path) { return Must(ReadFile(path, uint64_t{1} << 30)); }
  // The archive's files, edited, as an archive again.
  void Rewrite(const std::function<void(std::vector<std::pair<std::string, std::string>>&)>& edit) {
    const std::string bytes = Bytes(file_);
    TarReader reader({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, file_);
    std::vector<std::pair<std::string, std::string>> files;
    for (auto entry = Must(reader.Next()); entry; entry = Must(reader.Next()))
      files.emplace_back(entry->name, std::string(entry->bytes.begin(), entry->bytes.end()));
    edit(files);
    std::string out;
    for (const auto& [name, content] : files)
      out += Must(TarHeader(name, content.size())) + content + TarPadding(content.size());
    ASSERT_TRUE(WriteFile(file_, out + TarEnd()).ok());
  }

  std::string work_, out_, file_;
};

TEST_F(PackTest, TheSameAnswerAsTheFolder) {
  ASSERT_TRUE(WriteFile(out_ + "/notes.txt", "mine").ok());
  const PackedFiles packed = Must(PackResult(out_, true, file_));
  EXPECT_EQ(packed.left_out, std::vector<std::string>{"notes.txt"});
  EXPECT_TRUE(IsPackedResult(file_));
  EXPECT_FALSE(IsPackedResult(out_ + "/summary.json"));
  const std::string key = out_ + "/key.pub";
  const Verification folder = VerifyDirectory(out_, key);
  const Verification file = VerifyPackedResult(file_, key);
  EXPECT_EQ(file.verdict, Verdict::kValid) << file.ToText();
  EXPECT_EQ(file.receipt_ids, folder.receipt_ids);
  EXPECT_EQ(VerifyPackedResult(file_, "").verdict, Verdict::kValidUnknownKey);
  EXPECT_EQ(file.ToText().find("/tmp/assay-result"), std::string::npos) << file.ToText();
  EXPECT_NE(file.ToText().find(file_ + ":int4/report.json"), std::string::npos) << file.ToText();
}

TEST_F(PackTest, BytesDependOnTheContentsAlone) {
  Must(PackResult(out_, true, file_));
  const std::string other = work_ + "/elsewhere";
  fs::copy(out_, other, fs::copy_options::recursive);
  Must(PackResult(other, true, work_ + "/second.tar"));
  EXPECT_EQ(Bytes(file_), Bytes(work_ + "/second.tar"));
}

TEST_F(PackTest, WithoutPositionsNothingIsRecomputedAndThatIsSaid) {
  Must(PackResult(out_, false, file_));
  const Verification got = VerifyPackedResult(file_, out_ + "/key.pub");
  EXPECT_EQ(got.verdict, Verdict::kValid) << got.ToText();
  int arrays = 0;
  for (const Gate& gate : got.gates) {
    if (gate.name == "arrays") {
      ++arrays;
      EXPECT_EQ(gate.state, GateState::kNotApplicable);
    }
    EXPECT_NE(gate.name.rfind("statistics/", 0), 0u) << gate.name;
  }
  EXPECT_EQ(arrays, 2);
  // A folder whose arrays were removed fails as ever.
  fs::remove_all(out_ + "/int4/positions");
  EXPECT_EQ(VerifyDirectory(out_, out_ + "/key.pub").verdict, Verdict::kFailed);
}

TEST_F(PackTest, ChangedFilesAreRefused) {
  using Files = std::vector<std::pair<std::string, std::string>>;
  struct Change {
    const char* reason;
    std::function<void(Files&)> edit;
  };
  const std::vector<Change> changes = {
      {"DIGEST_MISMATCH", [](Files& files) { files.back().second += "x"; }},
      {"PACK_INVALID", [](Files& files) { files.pop_back(); }},
      {"PACK_INVALID", [](Files& files) { files.emplace_back("assay-result/more", "x"); }},
      {"PACK_INVALID", [](Files& files) { files.emplace_back("elsewhere/more", "x"); }},
      {"PACK_INVALID", [](Files& files) { std::swap(files[0], files[1]); }},
      {"JSON_INVALID", [](Files& files) { files[0].second = "{"; }},
      {"FIELD_INVALID", [](Files& files) { files[0].second = R"({"schema":"assay-pack/2"})"; }},
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Must(PackResult(out_, true, file_));
    Rewrite(changes[i].edit);
    EXPECT_EQ(ReasonOf(UnpackedResult::Open(file_).status()), changes[i].reason) << i;
    EXPECT_EQ(VerifyPackedResult(file_, "").verdict, Verdict::kFailed) << i;
  }
}

TEST_F(PackTest, NothingIsLeftBehind) {
  Must(PackResult(out_, true, file_));
  const std::string below = work_ + "/below";
  ASSERT_TRUE(EnsureDirectory(below).ok());
  {
    const auto unpacked = UnpackedResult::Open(file_, below);
    ASSERT_TRUE(unpacked.ok()) << unpacked.status();
    EXPECT_EQ(fs::status((*unpacked)->folder()).permissions() & fs::perms::others_all,
              fs::perms::none);
  }
  EXPECT_TRUE(fs::is_empty(below));
}

TEST_F(PackTest, RefusesWhatIsNoResultAndLinks) {
  EXPECT_EQ(ReasonOf(PackResult(work_, true, file_).status()), "NOTHING_TO_PACK");
  fs::remove(out_ + "/summary.md");
  fs::create_symlink("/etc/passwd", out_ + "/summary.md");
  EXPECT_EQ(ReasonOf(PackResult(out_, true, file_).status()), "LINK_REFUSED");
  EXPECT_FALSE(FileExists(file_));
}

}  // namespace
}  // namespace assay
