#include "client/cli/no_worker.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace assay {
namespace {

TEST(NoWorker, ALiveOneIsEnough) {
  EXPECT_EQ(NoWorkerSentence(Json::parse(R"([{"state":"LOST"},{"state":"LIVE"}])"), "h:1"), "");
}

TEST(NoWorker, NoneOrOnlyLostOnesAreSaidWithTheCommandThatHelps) {
  for (const char* workers : {"[]", R"([{"state":"LOST"}])", "[{}]"}) {
    const std::string sentence = NoWorkerSentence(Json::parse(workers), "h:1");
    EXPECT_THAT(sentence, ::testing::HasSubstr("no worker is connected to h:1"));
    EXPECT_THAT(sentence, ::testing::HasSubstr("assay-worker --coordinator"));
  }
}

}  // namespace
}  // namespace assay
