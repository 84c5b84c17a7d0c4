#include "storage/format/model_names.h"

#include <gmock/gmock.h>

#include "storage/base/status.h"
#include "storage/format/format_test_util.h"

namespace assay {
namespace {

class ModelNamesTest : public TempDirTest {
 protected:
  void SetUp() override {
    TempDirTest::SetUp();
    setenv("XDG_CONFIG_HOME", (dir_ + "/config").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_CONFIG_HOME");
    TempDirTest::TearDown();
  }
};

TEST_F(ModelNamesTest, ANameStandsForItsPath) {
  EXPECT_EQ(ModelPathOf("models/base").value(), "models/base");  // a coordinator's, perhaps
  const std::string file = Put("base.gguf", "x");
  ASSERT_TRUE(RememberModelName("base", {file, "id"}).ok());
  ASSERT_TRUE(RememberModelName("base", {file, "id2"}).ok());
  EXPECT_EQ(ModelPathOf("models/base").value(), file);
  EXPECT_EQ(ModelPathOf("models/other").value(), "models/other");
  EXPECT_EQ(ReadModelNames()->at("base").identity, "id2");
  const absl::Status taken = RememberModelName("base", {dir_ + "/other", "id"});
  EXPECT_EQ(ReasonOf(taken), "NAME_TAKEN");
  EXPECT_THAT(MessageOf(taken), testing::HasSubstr(file));
}

TEST_F(ModelNamesTest, AModelThatIsGoneIsMissing) {
  ASSERT_TRUE(RememberModelName("gone", {dir_ + "/gone", "id"}).ok());
  EXPECT_EQ(ReasonOf(ModelPathOf("models/gone").status()), "MODEL_MISSING");
}

TEST_F(ModelNamesTest, NamesAndDamageAreRefused) {
  for (const char* name : {"", "a/b", ".hidden", "a b", "a\n"}) {
    EXPECT_EQ(ReasonOf(RememberModelName(name, {dir_, "id"})), "NAME_INVALID") << name;
  }
  Put("config/assay/models.json", "{\"base\": 3}");
  EXPECT_EQ(ReasonOf(ModelPathOf("models/base").status()), "FIELD_INVALID");
}

}  // namespace
}  // namespace assay
