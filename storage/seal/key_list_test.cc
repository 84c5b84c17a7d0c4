#include "storage/seal/key_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/seal/command_signer.h"
#include "storage/seal/key_store.h"
#include "storage/seal/seal_test_data.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

std::string TempDir() {
  std::string name = "/tmp/assay_keysXXXXXX";
  return ::mkdtemp(name.data());
}

TEST(KeyList, EachKeyHasItsLeavesAndTheOneBeforeItSignsTheHandover) {
  const auto a = TestSigner(1), b = TestSigner(2), c = TestSigner(3);
  const KeyList list =
      Must(Must(Must(KeyList::Begin(*a, 10)).Rotate(*a, *b, 5, 20)).Rotate(*b, *c, 9, 30));
  ASSERT_EQ(list.keys().size(), 3u);
  EXPECT_EQ(list.active().key.key_id(), c->key_id());
  EXPECT_EQ(Must(KeyList::Parse(list.bytes(), "x")).keys()[1].create_ms, 20);
  const auto reason = [&](const Signer& key, uint64_t leaf) {
    return ReasonOf(list.CheckLeaf(key.public_key(), leaf));
  };
  EXPECT_EQ(reason(*a, 0), "");
  EXPECT_EQ(reason(*a, 4), "");
  EXPECT_EQ(reason(*a, 5), "KEY_RETIRED");
  EXPECT_EQ(reason(*b, 4), "KEY_RETIRED");
  EXPECT_EQ(reason(*b, 8), "");
  EXPECT_EQ(reason(*b, 9), "KEY_RETIRED");
  EXPECT_EQ(reason(*c, 1'000'000), "");
  EXPECT_EQ(reason(*TestSigner(4), 0), "KEY_UNKNOWN");
  // Only the active key can name its heir.
  EXPECT_EQ(ReasonOf(list.Rotate(*a, *TestSigner(4), 9, 40).status()), "KEY_MISMATCH");
  EXPECT_EQ(ReasonOf(list.Rotate(*c, *a, 9, 40).status()), "KEY_LIST_INVALID");  // twice
  EXPECT_EQ(ReasonOf(list.Rotate(*c, *TestSigner(4), 8, 40).status()), "KEY_LIST_INVALID");
}

TEST(KeyList, ChangedCharactersAreRefused) {
  const auto a = TestSigner(1), b = TestSigner(2);
  const std::string bytes = Must(Must(KeyList::Begin(*a, 10)).Rotate(*a, *b, 5, 20)).bytes();
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string changed = bytes;
    changed[i] = changed[i] == '1' ? '2' : '1';
    EXPECT_EQ(ReasonOf(KeyList::Parse(changed, "keys").status()), "KEY_LIST_INVALID") << i;
  }
}

// A list whose second key was never named by the first.
TEST(KeyList, AnHeirThatTheOldKeyDidNotSignForIsRefused) {
  const auto a = TestSigner(1), b = TestSigner(2), thief = TestSigner(9);
  Json mine = Must(
      ParseJson(Must(Must(KeyList::Begin(*thief, 1)).Rotate(*thief, *b, 0, 2)).bytes(), "keys"));
  const Json honest = Must(ParseJson(Must(KeyList::Begin(*a, 1)).bytes(), "keys"));
  mine["keys"][0] = honest["keys"][0];
  EXPECT_EQ(ReasonOf(KeyList::Parse(Must(CanonicalJson(mine)), "keys").status()),
            "KEY_LIST_INVALID");
}

TEST(KeyStore, ARotationKeepsTheOldKeyAndSurvivesBeingCutInTwo) {
  const std::string dir = TempDir();
  KeyStoreOptions options{dir, true, 1000};
  OpenKeys keys = Must(OpenKeyStore(options, nullptr));
  const std::string first = keys.signer->key_id();
  const std::string key_file = dir + "/signing.key";
  const std::string first_pem = Must(ReadFile(key_file, 4096));
  const KeyList list = Must(RotateKey(keys, options, 7, nullptr));
  const std::string second = list.active().key.key_id();
  EXPECT_NE(first, second);
  options.create = false;
  EXPECT_EQ(Must(OpenKeyStore(options, nullptr)).signer->key_id(), second);
  const std::string retired = key_file + "." + first.substr(0, 16) + ".retired";
  EXPECT_EQ(Must(ReadFile(retired, 4096)), first_pem);
  // Cut after the list was replaced: neither file has its new name yet.
  ASSERT_EQ(std::rename(key_file.c_str(), (key_file + ".next").c_str()), 0);
  ASSERT_EQ(std::rename(retired.c_str(), key_file.c_str()), 0);
  EXPECT_EQ(Must(OpenKeyStore(options, nullptr)).signer->key_id(), second);
  EXPECT_TRUE(FileExists(retired));
  // Cut between the two names.
  ASSERT_EQ(std::rename(key_file.c_str(), (key_file + ".next").c_str()), 0);
  EXPECT_EQ(Must(OpenKeyStore(options, nullptr)).signer->key_id(), second);
  // The key is gone: no other one is made in its place.
  ASSERT_EQ(::unlink(key_file.c_str()), 0);
  EXPECT_EQ(ReasonOf(OpenKeyStore(options, nullptr).status()), "KEY_MISSING");
  EXPECT_TRUE(RemoveTree(dir).ok());
}

TEST(KeyStore, ForeignKeysAndOpenFilesAreRefused) {
  const std::string dir = TempDir();
  const KeyStoreOptions options{dir, true, 1000};
  ASSERT_TRUE(OpenKeyStore(options, nullptr).ok());
  EXPECT_EQ(ReasonOf(OpenKeyStore(options, TestSigner(5)).status()), "KEY_MISMATCH");
  for (const mode_t mode : {0640, 0604, 0660}) {
    ASSERT_EQ(::chmod((dir + "/signing.key").c_str(), mode), 0);
    EXPECT_EQ(ReasonOf(OpenKeyStore(options, nullptr).status()), "KEY_PERMISSIONS");
  }
  EXPECT_TRUE(RemoveTree(dir).ok());
}

// ---- programs that sign

class Program {
 public:
  Program() : dir_(TempDir()) {
    key_ = Must(Signer::Create(dir_ + "/key"));
    EXPECT_TRUE(WriteFile(dir_ + "/key.pub", key_->public_key().pem()).ok());
  }
  ~Program() { EXPECT_TRUE(RemoveTree(dir_).ok()); }
  // The result of signing "message" with a shell script of these lines.
  absl::StatusOr<std::string> Sign(const std::string& lines, int64_t timeout_ms = 20'000) {
    const std::string path = dir_ + "/program";
    EXPECT_TRUE(WriteFile(path, "#!/bin/sh\n" + lines + "\n").ok());
    EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
    const auto signer = OpenCommandSigner({path, dir_ + "/key.pub", timeout_ms});
    EXPECT_TRUE(signer.ok()) << signer.status();
    return (*signer)->Sign(message);
  }
  const std::string& dir() const { return dir_; }
  const Signer& key() const { return *key_; }
  const std::string message = std::string("bytes\0to sign\n", 14);

 private:
  const std::string dir_;
  std::unique_ptr<Signer> key_;
};

TEST(CommandSigner, OpensslSignsAndTheSignatureIsThatOfTheKey) {
  Program program;
  const std::string lines = "cd " + program.dir() +
                            "\ncat > in\nopenssl pkeyutl -sign -rawin -inkey key -in in -out out\n"
                            "cat out";
  EXPECT_EQ(Must(program.Sign(lines)), Must(program.key().Sign(program.message)));
}

TEST(CommandSigner, NothingButTheRightSignatureIsAccepted) {
  Program program;
  const auto reason = [&](const std::string& lines, int64_t timeout_ms = 20'000) {
    const auto answer = program.Sign(lines, timeout_ms);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
    return ReasonOf(answer.status());
  };
  EXPECT_EQ(reason("cat > /dev/null; head -c 64 /dev/zero"), "SIGNATURE_REFUSED");
  EXPECT_EQ(reason("cat > /dev/null"), "SIGNATURE_REFUSED");            // nothing
  EXPECT_EQ(reason("cat > /dev/null; yes"), "SIGNATURE_REFUSED");       // without end
  EXPECT_EQ(reason("exec head -c 64 /dev/zero"), "SIGNATURE_REFUSED");  // input not read
  EXPECT_EQ(reason("cat > /dev/null; exit 3"), "SIGNER_UNAVAILABLE");
  EXPECT_EQ(reason("exec sleep 100", 300), "SIGNER_UNAVAILABLE");
  EXPECT_EQ(reason("exec >&-; exec sleep 100", 300), "SIGNER_UNAVAILABLE");
  // A right signature of something else.
  const std::string other = program.dir() + "/other";
  ASSERT_TRUE(WriteFile(other, Must(program.key().Sign("other"))).ok());
  EXPECT_EQ(reason("cat > /dev/null; cat " + other), "SIGNATURE_REFUSED");
  EXPECT_EQ(ReasonOf(OpenCommandSigner({"relative", "", 1}).status()), "SIGNER_INVALID");
  EXPECT_EQ(ReasonOf(OpenCommandSigner({"/bin/true", "", 1}).status()), "SIGNER_INVALID");
}

// A refused signature leaves the log as it was.
TEST(CommandSigner, ARefusedSignatureSealsNothing) {
  Program program;
  const std::string path = program.dir() + "/program";
  ASSERT_TRUE(WriteFile(path, "#!/bin/sh\ncat > /dev/null; head -c 64 /dev/zero\n").ok());
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  const auto signer = Must(OpenCommandSigner({path, program.dir() + "/key.pub", 20'000}));
  TestLog log;
  const Json report = Must(BuildReport(SmolInputs("int4-g32")));
  EXPECT_EQ(ReasonOf(SealReport(TestRequest(report, ""), *signer, log.log).status()),
            "SIGNATURE_REFUSED");
  EXPECT_EQ(log.log.size(), 0u);
}

}  // namespace
}  // namespace assay
