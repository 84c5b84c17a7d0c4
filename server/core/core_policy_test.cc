// A run's numeric policy: in its units, in what is reused, and in what may be resumed.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/core_test_world.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using testing_world::World;

RunRow WithPolicy(RunRow run, const std::string& policy) {
  run.numeric_policy = policy;
  run.spec_sha256 = Sha256Hex(policy + run.request_id);
  return run;
}

TEST(CorePolicy, EveryPolicyIsAcceptedAndWorkOfAnotherIsNotReused) {
  World w;
  const std::string ref = w.AddModel("ref"), a = w.AddModel("a");
  int number = 0;
  for (const char* policy : {"exact", "torch-bf16", "fp64-audit"}) {
    const std::string run =
        w.Create(WithPolicy(w.Spec("r" + std::to_string(number++), ref, {a}), policy));
    EXPECT_FALSE(w.state.runs.at(run).candidates[0].reused) << policy;
    w.WorkAll({});
    w.SealAll();
    EXPECT_EQ(w.StateOf(run), RunState::kSucceeded) << policy;
    EXPECT_EQ(w.state.runs.at(run).numeric_policy, policy);
  }
  const std::string again = w.Create(WithPolicy(w.Spec("again", ref, {a}), "torch-bf16"));
  EXPECT_TRUE(w.state.runs.at(again).candidates[0].reused);
}

TEST(CorePolicy, ResumingWithAnotherPolicyIsRefusedByName) {
  World w;
  const std::string ref = w.AddModel("ref");
  w.Create(WithPolicy(w.Spec("r", ref, {ref}), "exact"));
  const auto outcome = w.Do(CreateRun{WithPolicy(w.Spec("r", ref, {ref}), "torch-bf16")});
  EXPECT_EQ(ReasonOf(outcome.status), "REQUEST_ID_REUSED");
  EXPECT_THAT(MessageOf(outcome.status),
              HasSubstr("of numeric policy exact instead of torch-bf16"));
}

}  // namespace
}  // namespace assay
