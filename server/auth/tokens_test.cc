#include "server/auth/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Tokens : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = "/tmp/assay_tokensXXXXXX";
    ASSERT_NE(::mkdtemp(dir_.data()), nullptr);
    path_ = dir_ + "/tokens.json";
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(dir_).ok()); }
  std::string Create(const std::string& name, Role role, int64_t expire = 0) {
    const auto token = CreateToken(path_, name, role, expire, 1000);
    EXPECT_TRUE(token.ok()) << token.status();
    return token.value_or("");
  }
  std::string Reason(TokenStore& store, const std::string& token, int64_t now = 2000) {
    const auto caller = store.Authenticate(token, now);
    if (!caller.ok() && ReasonOf(caller.status()) != "TOKENS_INVALID") {
      EXPECT_EQ(caller.status().code(), absl::StatusCode::kUnauthenticated);
    }
    return ReasonOf(caller.status());
  }
  std::string dir_, path_;
};

TEST_F(Tokens, ATokenIsItsHolderAndNothingOfItIsKept) {
  const std::string token = Create("lab", Role::kSubmitter);
  EXPECT_EQ(token.size(), 87u);
  EXPECT_NE(token, Create("lab2", Role::kSubmitter));
  const auto store = TokenStore::Open(path_).value();
  const auto caller = store->Authenticate(token, 2000);
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->name, "lab");
  EXPECT_EQ(caller->role, Role::kSubmitter);
  const std::string file = ReadFile(path_, 1 << 20).value();
  EXPECT_THAT(file, Not(HasSubstr(token.substr(23))));  // the secret
  EXPECT_THAT(file, HasSubstr(token.substr(6, 16)));    // the id
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST_F(Tokens, EveryChangedCharacterIsRefused) {
  const std::string token = Create("lab", Role::kAdmin);
  const auto store = TokenStore::Open(path_).value();
  for (size_t i = 0; i < token.size(); ++i) {
    std::string other = token;
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_EQ(Reason(*store, other), "TOKEN_INVALID") << i;
  }
  for (const std::string& bad : {std::string(), token.substr(1), token + "0", token.substr(0, 86),
                                 std::string(1 << 16, 'a'), "Bearer " + token}) {
    EXPECT_EQ(Reason(*store, bad), "TOKEN_INVALID");
  }
  EXPECT_EQ(Reason(*store, token), "");
}

TEST_F(Tokens, RevokedAndExpiredTokensEndAtOnceInARunningStore) {
  const std::string a = Create("a", Role::kReader), b = Create("b", Role::kReader, 5000);
  const auto store = TokenStore::Open(path_).value();
  const std::string id = store->Authenticate(a, 2000)->token_id;
  EXPECT_TRUE(store->Counts(id, 2000));
  EXPECT_EQ(Reason(*store, b, 4999), "");
  EXPECT_EQ(Reason(*store, b, 5000), "TOKEN_EXPIRED");
  ASSERT_TRUE(RevokeToken(path_, "a", 3000).ok());
  EXPECT_EQ(Reason(*store, a), "TOKEN_REVOKED");
  EXPECT_FALSE(store->Counts(id, 2000));
  EXPECT_EQ(ReasonOf(RevokeToken(path_, "a", 3000)), "TOKEN_UNKNOWN");
  // A new token of the same name is another token.
  const std::string again = Create("a", Role::kReader);
  EXPECT_EQ(Reason(*store, again), "");
  EXPECT_EQ(Reason(*store, a), "TOKEN_REVOKED");
}

TEST_F(Tokens, AFileThatCannotBeReadLetsNobodyIn) {
  const std::string token = Create("a", Role::kAdmin);
  const std::string good = ReadFile(path_, 1 << 20).value();
  const auto store = TokenStore::Open(path_).value();
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  EXPECT_EQ(Reason(*store, token), "TOKENS_INVALID");
  ASSERT_TRUE(WriteFileAtomic(path_, good.substr(0, good.size() / 2), 0600).ok());
  EXPECT_EQ(Reason(*store, token), "TOKENS_INVALID");
  EXPECT_EQ(ReasonOf(TokenStore::Open(path_).status()), "TOKENS_INVALID");
  ASSERT_TRUE(WriteFileAtomic(path_, good, 0600).ok());
  EXPECT_EQ(Reason(*store, token), "");
  for (const mode_t mode : {0640, 0604, 0644}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(Reason(*store, token), "TOKENS_INVALID");
    EXPECT_EQ(ReasonOf(TokenStore::Open(path_).status()), "TOKENS_PERMISSIONS");
  }
}

TEST_F(Tokens, NamesAreCheckedAndBelongToOneTokenAtATime) {
  Create("lab", Role::kReader);
  EXPECT_EQ(ReasonOf(CreateToken(path_, "lab", Role::kAdmin, 0, 1000).status()),
            "TOKEN_NAME_TAKEN");
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a\n"), std::string("../a"),
        std::string("local"), std::string("coordinator"), std::string(65, 'a')}) {
    EXPECT_EQ(ReasonOf(CreateToken(path_, name, Role::kAdmin, 0, 1000).status()),
              "TOKEN_NAME_INVALID")
        << name;
  }
}

}  // namespace
}  // namespace assay
