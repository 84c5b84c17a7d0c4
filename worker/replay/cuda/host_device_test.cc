// The whole cuda-bf16 path but for launches, device memory and cuBLASLt: the passes in the GPU's
// order of threads, the pipeline of tiles, ranks and refusals, on the host.

#include "worker/replay/cuda/host_device.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/status.h"
#include "worker/replay/cuda/case_check.h"
#include "worker/replay/cuda/device_run.h"
#include "worker/replay/cuda/own_device.h"
#include "worker/replay/cuda/plugin.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

struct Devices {
  explicit Devices(int count, uint64_t rows = 1 << 20) {
    for (int r = 0; r < count; ++r) {
      own.push_back(MakeHostDevice(rows));
      pointers.push_back(own.back().get());
    }
  }
  std::vector<std::unique_ptr<ReplayDevice>> own;
  std::vector<ReplayDevice*> pointers;
};

TEST(HostDevice, KnownAnswersAndRefusals) {
  Devices one(1);
  const CaseCounts counts = CheckAllCases(one.pointers);
  EXPECT_THAT(counts.failures, ::testing::IsEmpty());
  EXPECT_EQ(counts.answers + counts.refusals + counts.named, 86);
  EXPECT_EQ(counts.answers, 68);
  EXPECT_EQ(counts.refusals, 15);
  EXPECT_LE(counts.worst, 1e-12);
  std::printf("largest error %.1e of max(|value|, 1e-6; delta_p: 1e-3)\n", counts.worst);
}

// Two leaves of more than 4,000 columns would need a large vocabulary; the fixtures reach 4,096 in
// 8 leaves, so the sums of a full leaf are compared with the CPU backend's here.
TEST(HostDevice, AgreesWithTheCpuBackendOverFullLeaves) {
  const auto problem = MakeProblem({8 * 4096, 16, {5}, 2, true}, 3);
  ReplayPlan plan = problem->plan;
  plan.softcap = 3.0;
  Devices one(1);
  const auto got = RunOnDevices(plan, one.pointers);
  ASSERT_TRUE(got.ok()) << got.status();
  plan.backend = ReplayBackend::kCpuF32;
  const auto want = RunOnRanks(plan, 1, 1);
  ASSERT_TRUE(want.ok()) << want.status();
  for (size_t c = 0; c < want->rows.size(); ++c) {
    for (int k = 0; k < kReplayF64Count; ++k) {
      for (size_t i = 0; i < 5; ++i) {
        const double a = got->rows[c][0].f64[k][i], b = want->rows[c][0].f64[k][i];
        EXPECT_NEAR(a, b, 1e-5 + 1e-5 * std::fabs(b)) << kReplayF64Names[k];  // fp32 sums differ
      }
    }
    EXPECT_EQ(got->rows[c][0].i32, want->rows[c][0].i32);
  }
}

TEST(HostDevice, BitsDoNotDependOnTilesRanksOrUnits) {
  const auto problem = MakeProblem({1003, 40, {70, 1, 33}, 2, true}, 5);
  ReplayPlan plan = problem->plan;
  plan.softcap = 20.0;
  plan.heads[1].scale = 0.75;
  plan.heads[1].bias.assign(1003, 0.125f);
  plan.row_tile = 0;
  Devices one(1);
  const auto whole = RunOnDevices(plan, one.pointers);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const int ranks : {1, 2, 4, 8}) {
    for (const uint64_t rows : {1, 7, 64}) {
      Devices devices(ranks, rows);
      const auto cut = RunOnDevices(plan, devices.pointers);
      ASSERT_TRUE(cut.ok()) << cut.status();
      EXPECT_TRUE(BytesOf(*cut) == BytesOf(*whole)) << ranks << " ranks, tiles of " << rows;
    }
  }
  ReplayPlan unit = plan;  // the last context alone
  unit.contexts = {plan.contexts[2]};
  for (ReplayOperand& operand : unit.operands) {
    operand.rows = [rows = operand.rows](size_t) { return rows(2); };
  }
  const auto alone = RunOnDevices(unit, one.pointers);
  ASSERT_TRUE(alone.ok()) << alone.status();
  for (size_t c = 0; c < plan.comparisons.size(); ++c) {
    EXPECT_EQ(alone->rows[c][0].i32, whole->rows[c][2].i32);
    for (int k = 0; k < kReplayF64Count; ++k) {
      EXPECT_EQ(alone->rows[c][0].f64[k], whole->rows[c][2].f64[k]);
    }
  }
}

TEST(HostDevice, RefusalsAreTheSameOnRanksAndTiles) {
  for (const uint64_t rows : {1, 2}) {
    Devices four(4, rows);
    EXPECT_THAT(CheckAllCases(four.pointers).failures, ::testing::IsEmpty()) << rows;
  }
}

TEST(HostDevice, SelfTestPassesAndSeesAProductThatDependsOnRows) {
  Devices one(1);
  const auto first = RunDeviceSelfTest(*one.pointers[0]);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->size(), 64);
  const auto faulty = MakeHostDevice(1 << 20, /*fault=*/true);
  EXPECT_EQ(ReasonOf(RunDeviceSelfTest(*faulty).status()), "SELF_TEST_FAILED");
}

// Every rank tells the same, or none goes on.
TEST(Ranks, AgreeOnDevicesThatAreAlikeOnly) {
  const auto agree = [](const std::vector<std::string>& digests, int broken) {
    auto group = CreateThreadCollectives(static_cast<int>(digests.size()), 60'000);
    std::vector<absl::Status> out(digests.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < digests.size(); ++r) {
      threads.emplace_back([&, r] {
        const absl::Status own = static_cast<int>(r) == broken
                                     ? InternalError("SELF_TEST_FAILED", "broken")
                                     : absl::OkStatus();
        out[r] = AgreeOnDevices(own, "GPU", digests[r], *group[r]);
      });
    }
    for (std::thread& t : threads) t.join();
    return out;
  };
  for (const absl::Status& s : agree({"a", "a", "a"}, -1)) EXPECT_TRUE(s.ok()) << s;
  for (const absl::Status& s : agree({"a", "a", "b"}, -1)) {
    EXPECT_EQ(ReasonOf(s), "SELF_TEST_FAILED");
    EXPECT_THAT(MessageOf(s), ::testing::HasSubstr("rank 2 has another GPU than rank 0"));
  }
  const auto stopped = agree({"a", "a"}, 1);
  EXPECT_EQ(ReasonOf(stopped[0]), "COLLECTIVE_FAILED");
  EXPECT_EQ(ReasonOf(stopped[1]), "SELF_TEST_FAILED");
}

// Here or in CI there is no GPU: refused by name, with what to do. Where there is one, it opens.
TEST(Plugin, OpensOrSaysWhatIsMissing) {
  const auto device = OpenReplayDevice(0);
  if (device.ok()) {
    EXPECT_NE((*device)->identity().device, "");
    return;
  }
  EXPECT_EQ(ReasonOf(device.status()), "BACKEND_UNAVAILABLE");
  EXPECT_THAT(MessageOf(device.status()), ::testing::HasSubstr("cuda-bf16"));
  EXPECT_THAT(MessageOf(device.status()), ::testing::HasSubstr("cpu-"));
}

TEST(Engine, ForcedByTheEnvironmentWithoutAGpuIsRefusedAtStart) {
  EXPECT_EQ(*ParseReplayBackend("cuda-bf16"), ReplayBackend::kCudaBf16);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process without an identity yet
  const int code = OpenReplayDevice(0).ok() ? 0 : 3;
  EXPECT_EXIT(
      {
        setenv("ASSAY_REPLAY_BACKEND", "cuda-bf16", 1);
        const auto engine = ReplayEngine::Create(1);
        std::fprintf(stderr, "cuda-bf16: %s\n", engine.status().ToString().c_str());
        std::exit(engine.ok() ? 0 : 3);
      },
      ::testing::ExitedWithCode(code), "cuda-bf16");
}

TEST(Engine, ForcedBackendWithoutAGpuIsRefused) {
  const auto problem = MakeProblem({100, 16, {2}, 1, false}, 5);
  ReplayPlan plan = problem->plan;
  plan.backend = ReplayBackend::kCudaBf16;
  const auto result = RunOnRanks(plan, 2, 1);
  if (OpenReplayDevice(0).ok()) {
    EXPECT_TRUE(result.ok()) << result.status();
  } else {
    EXPECT_THAT(ReasonOf(result.status()),
                ::testing::AnyOf("BACKEND_UNAVAILABLE", "COLLECTIVE_FAILED"));
  }
}

}  // namespace
}  // namespace assay
