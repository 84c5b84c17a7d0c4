// Groups of real assay-rank processes: the same bytes for every size and after every loss.

#include "worker/group/group.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/bf16.h"
#include "storage/base/build_info.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/safetensors.h"
#include "worker/group/rank_process.h"
#include "worker/rank/protocol.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kVocab = 5000, kHidden = 64, kRows = 40, kContexts = 3;

std::string BinDir() {
  const char* dir = getenv("ASSAY_BIN_DIR");
  return dir != nullptr ? dir : ProgramFolder();
}

std::set<std::string> OpenDescriptors() {
  std::set<std::string> out;
  DIR* dir = opendir("/proc/self/fd");
  while (dirent* entry = readdir(dir)) {
    if (atoi(entry->d_name) != dirfd(dir)) out.insert(entry->d_name);
  }
  closedir(dir);
  return out;
}

class GroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "assay-group-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
    MakeInputs();
  }
  void TearDown() override {
    unsetenv("ASSAY_RANK_DIE");
    RemoveTree(dir_).IgnoreError();
  }

  GroupOptions Options(int size) const {
    GroupOptions options;
    options.size = size;
    options.threads = 1;
    options.work_dir = dir_ + "/work-" + std::to_string(size);
    options.rank_program = BinDir() + "/assay-rank";
    options.capture = false;
    return options;
  }

  std::string WriteMatrix(const std::string& name, const std::string& tensor, uint64_t rows,
                          uint64_t width, unsigned seed, bool poison = false) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> values(rows * width);
    for (uint16_t& value : values) value = FloatToBf16(normal(random));
    if (poison) values[7 * width + 5] = 0x7fc0;  // NaN in row 7
    SafetensorsBuilder builder;
    builder.Add(tensor, DType::kBF16, {rows, width},
                {reinterpret_cast<const uint8_t*>(values.data()), values.size() * 2});
    const std::string path = dir_ + "/" + name + ".safetensors";
    EXPECT_TRUE(WriteFile(path, builder.Build()).ok());
    return path;
  }

  // Two candidates, two heads, a vocabulary of several uneven leaves.
  void MakeInputs() {
    const std::string head = WriteMatrix("head", "weight", kVocab, kHidden, 1);
    const std::string other = WriteMatrix("other", "weight", kVocab, kHidden, 2);
    unit_ = {{"kind", "replay"}, {"policy", "exact"}, {"row_tile", 16}};
    unit_["heads"] = {{{"id", "h0"}, {"file", head}, {"tensor", "weight"}},
                      {{"id", "h1"}, {"file", other}, {"tensor", "weight"}}};
    unit_["operands"] = Json::array();
    for (const std::string id : {"ref", "a", "b"}) {
      Json files = Json::array();
      for (uint64_t c = 0; c < kContexts; ++c) {
        files.push_back(WriteMatrix(id + std::to_string(c), "hidden_states", kRows, kHidden,
                                    static_cast<unsigned>(100 + 10 * c + id[0])));
      }
      unit_["operands"].push_back({{"id", id}, {"role", id}, {"hidden", files}});
    }
    unit_["contexts"] = Json::array();
    for (uint64_t c = 0; c < kContexts; ++c) {
      std::vector<int> observed(kRows);
      for (uint64_t r = 0; r < kRows; ++r) observed[r] = static_cast<int>((r * 977 + c) % kVocab);
      unit_["contexts"].push_back({{"index", c}, {"observed", observed}});
    }
    const auto side = [](const char* operand, const char* head_id) {
      return Json{{"operand", operand}, {"head", head_id}};
    };
    unit_["comparisons"] = {
        {{"id", "a/shared"}, {"ref", side("ref", "h0")}, {"cand", side("a", "h0")}},
        {{"id", "b/own"}, {"ref", side("ref", "h0")}, {"cand", side("b", "h1")}},
        {{"id", "self"}, {"ref", side("ref", "h0")}, {"cand", side("ref", "h0")}}};
  }

  // Digest of the positions file that the unit gives in `group`.
  std::string Positions(Group& group, const std::string& name, UnitOutcome* outcome = nullptr,
                        const UnitProgress& progress = nullptr) {
    absl::StatusOr<UnitOutcome> done = group.Run(unit_, dir_ + "/" + name, progress);
    EXPECT_TRUE(done.ok()) << done.status();
    if (!done.ok()) return "failed";
    if (outcome != nullptr) *outcome = *done;
    absl::StatusOr<std::string> digest =
        Sha256File(dir_ + "/" + name + "/" + done->result.at("file").get<std::string>());
    EXPECT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(*digest, done->result.at("sha256").get<std::string>());
    return *digest;
  }

  std::unique_ptr<Group> Start(const GroupOptions& options) {
    absl::StatusOr<std::unique_ptr<Group>> group = Group::Start(options);
    EXPECT_TRUE(group.ok()) << group.status();
    return group.ok() ? std::move(*group) : nullptr;
  }

  std::string dir_;
  Json unit_;
};

TEST_F(GroupTest, SameBytesAndFallingWorkForEverySize) {
  std::string first;
  uint64_t total = 0;
  for (const int size : {1, 2, 4, 8}) {
    std::unique_ptr<Group> group = Start(Options(size));
    ASSERT_NE(group, nullptr);
    UnitOutcome outcome;
    const std::string digest = Positions(*group, "out-" + std::to_string(size), &outcome);
    if (size == 1) first = digest;
    EXPECT_EQ(digest, first) << size << " ranks";
    EXPECT_EQ(outcome.attempts, 1);
    ASSERT_EQ(outcome.counters.size(), static_cast<size_t>(size));
    uint64_t sum = 0, most = 0, bytes = 0;
    for (const RankCounters& counters : outcome.counters) {
      sum += counters.multiply_adds;
      most = std::max(most, counters.multiply_adds);
      bytes += counters.weight_bytes;
    }
    // rows x vocabulary x hidden of the distinct (operand, head) pairs: ref, a with h0; b with h1.
    if (size == 1) total = 3 * kContexts * kRows * kVocab * kHidden;
    EXPECT_EQ(sum, total) << "nothing is computed twice, or left out, by " << size << " ranks";
    EXPECT_EQ(bytes, 2 * kVocab * kHidden * 2);
    // Whole leaves are dealt out, so shares are uneven, but nobody has nearly everything.
    if (size > 1) {
      EXPECT_LT(most, total * 3 / 4) << size << " ranks";
    }
  }
  const auto file = SafetensorsFile::Open(dir_ + "/out-8/positions.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), 3 * kContexts * 14);
  EXPECT_EQ((*file)->tensors()[0].name, "a/shared|000000|kl_ref_cand");
  const auto self = (*file)->Find("self|000002|kl_ref_cand");
  ASSERT_TRUE(self.ok());
  for (const uint8_t byte : self->bytes) ASSERT_EQ(byte, 0);
}

TEST_F(GroupTest, KilledRankCostsAnAttemptAndNoBit) {
  std::unique_ptr<Group> calm = Start(Options(2));
  ASSERT_NE(calm, nullptr);
  const std::string want = Positions(*calm, "calm");
  calm.reset();
  setenv("ASSAY_RANK_DIE", "1:1", 1);
  std::unique_ptr<Group> group = Start(Options(2));
  ASSERT_NE(group, nullptr);
  const std::vector<int> before = group->pids();
  UnitOutcome outcome;
  EXPECT_EQ(Positions(*group, "killed", &outcome), want);
  EXPECT_EQ(outcome.attempts, 2);
  EXPECT_NE(group->pids(), before);
  // The next unit finds a healthy group.
  EXPECT_EQ(Positions(*group, "after", &outcome), want);
  EXPECT_EQ(outcome.attempts, 1);
}

TEST_F(GroupTest, KilledFromOutsideInTheMiddle) {
  std::unique_ptr<Group> group = Start(Options(4));
  ASSERT_NE(group, nullptr);
  const std::string want = Positions(*group, "calm");
  bool killed = false;
  UnitOutcome outcome;
  const std::string got = Positions(*group, "killed", &outcome, [&](uint64_t, uint64_t) {
    if (!killed) kill(group->pids()[3], SIGKILL);
    killed = true;
    return true;
  });
  EXPECT_TRUE(killed);
  EXPECT_EQ(got, want);
  EXPECT_EQ(outcome.attempts, 2);
}

TEST_F(GroupTest, HungRankIsKilledAndTheUnitDone) {
  GroupOptions options = Options(2);
  options.progress_timeout_ms = 1500;
  std::unique_ptr<Group> group = Start(options);
  ASSERT_NE(group, nullptr);
  const std::string want = Positions(*group, "calm");
  bool stopped = false;
  UnitOutcome outcome;
  const std::string got = Positions(*group, "hung", &outcome, [&](uint64_t, uint64_t) {
    if (!stopped) kill(group->pids()[1], SIGSTOP);
    stopped = true;
    return true;
  });
  EXPECT_TRUE(stopped);
  EXPECT_EQ(got, want);
  EXPECT_EQ(outcome.attempts, 2);
}

TEST_F(GroupTest, GivesUpAfterTheStatedAttempts) {
  GroupOptions options = Options(1);
  options.max_attempts = 2;
  std::unique_ptr<Group> group = Start(options);
  ASSERT_NE(group, nullptr);
  int kills = 0;
  absl::StatusOr<UnitOutcome> done = group->Run(unit_, dir_ + "/out", [&](uint64_t, uint64_t) {
    ++kills;
    kill(group->pids()[0], SIGKILL);
    return true;
  });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(ReasonOf(done.status()), "RANK_DIED");
  EXPECT_THAT(MessageOf(done.status()), HasSubstr("2 attempts"));
  EXPECT_THAT(MessageOf(done.status()), HasSubstr("signal 9"));
  EXPECT_GE(kills, 2);
  // Not poisoned: an undisturbed unit goes through afterwards.
  EXPECT_NE(Positions(*group, "after"), "failed");
}

TEST_F(GroupTest, RefusedRowIsFinalAndNamed) {
  const std::string bad = WriteMatrix("bad", "hidden_states", kRows, kHidden, 77, true);
  unit_["operands"][2]["hidden"][1] = bad;
  for (const int size : {1, 2}) {
    std::unique_ptr<Group> group = Start(Options(size));
    ASSERT_NE(group, nullptr);
    absl::StatusOr<UnitOutcome> done = group->Run(unit_, dir_ + "/out");
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(ReasonOf(done.status()), "NON_FINITE_INPUT");
    const Json details = DetailsOf(done.status());
    ASSERT_TRUE(details.is_object()) << done.status();
    EXPECT_EQ(details.at("operand"), "b");
    EXPECT_EQ(details.at("context"), 1);
    EXPECT_EQ(details.at("position"), 7);
    EXPECT_EQ(details.at("column"), 5);
    // The group lives on and scores good work.
    Json good = unit_;
    good["operands"][2]["hidden"][1] = dir_ + "/b1.safetensors";
    EXPECT_TRUE(group->Run(good, dir_ + "/good").ok());
  }
}

TEST_F(GroupTest, BadUnitsAreNamed) {
  std::unique_ptr<Group> group = Start(Options(1));
  ASSERT_NE(group, nullptr);
  const auto reason = [&](const Json& unit) {
    return ReasonOf(group->Run(unit, dir_ + "/out").status());
  };
  EXPECT_EQ(reason({{"kind", "dance"}}), "UNIT_KIND_UNKNOWN");
  EXPECT_EQ(reason(Json::object()), "UNIT_INVALID");
  EXPECT_EQ(reason(Json::array()), "UNIT_INVALID");
  Json unit = unit_;
  unit["policy"] = "guess";
  EXPECT_EQ(reason(unit), "REPLAY_POLICY_UNKNOWN");
  unit = unit_;
  unit["operands"][0]["hidden"].erase(0);
  EXPECT_EQ(reason(unit), "UNIT_INVALID");
  unit = unit_;
  unit["operands"][0]["hidden"][0] = dir_ + "/nowhere.safetensors";
  EXPECT_EQ(reason(unit), "FILE_MISSING");
  unit = unit_;
  unit["contexts"][0]["observed"][3] = kVocab;
  EXPECT_EQ(reason(unit), "TOKEN_OUT_OF_RANGE");
  unit = unit_;
  unit["contexts"][1]["index"] = 0;
  EXPECT_EQ(reason(unit), "UNIT_INVALID");
  unit = unit_;
  unit["comparisons"][0]["id"] = "a|b";
  EXPECT_EQ(reason(unit), "UNIT_INVALID");
  EXPECT_EQ(reason({{"kind", "prepare"}, {"model", {{"path", dir_ + "/none.gguf"}}}}),
            "MODEL_MISSING");
  EXPECT_EQ(reason({{"kind", "capture"},
                    {"model", {{"path", dir_}, {"transform", ""}}},
                    {"contexts", {{{"index", 0}, {"tokens", {1, 2}}}}}}),
            "CAPTURE_ENGINE_MISSING");
  EXPECT_NE(Positions(*group, "after"), "failed");
}

TEST_F(GroupTest, CancelEndsTheUnitAndKeepsTheGroupUsable) {
  std::unique_ptr<Group> group = Start(Options(2));
  ASSERT_NE(group, nullptr);
  absl::StatusOr<UnitOutcome> done =
      group->Run(unit_, dir_ + "/out", [](uint64_t, uint64_t) { return false; });
  EXPECT_EQ(ReasonOf(done.status()), "CANCELLED");
  group->Cancel();  // before the next one
  EXPECT_EQ(ReasonOf(group->Run(unit_, dir_ + "/out").status()), "CANCELLED");
  EXPECT_NE(Positions(*group, "after"), "failed");
}

TEST_F(GroupTest, RestartGivesFreshProcessesWithTheSameIdentity) {
  std::unique_ptr<Group> group = Start(Options(2));
  ASSERT_NE(group, nullptr);
  const Json identity = group->identity();
  EXPECT_TRUE(identity.at("replay").is_object());
  EXPECT_TRUE(identity.at("capture").is_null());
  const std::vector<int> before = group->pids();
  ASSERT_TRUE(group->Restart().ok());
  EXPECT_EQ(group->identity(), identity);
  for (const int pid : group->pids()) {
    EXPECT_THAT(before, ::testing::Not(::testing::Contains(pid)));
  }
}

TEST_F(GroupTest, LeavesNothingBehind) {
  const std::set<std::string> before = OpenDescriptors();
  std::vector<int> pids;
  {
    std::unique_ptr<Group> group = Start(Options(4));
    ASSERT_NE(group, nullptr);
    pids = group->pids();
    Positions(*group, "out");
  }
  EXPECT_EQ(OpenDescriptors(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  for (const int pid : pids) EXPECT_NE(kill(pid, 0), 0);
  const auto names = ListDirectory(dir_ + "/work-4");
  ASSERT_TRUE(names.ok());
  for (const std::string& name : *names) {
    EXPECT_THAT(name, HasSubstr(".log"));
  }
}

// A parent that is killed leaves no rank behind.
TEST_F(GroupTest, RanksDieWithTheirParent) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    std::unique_ptr<Group> group = Start(Options(2));
    const std::vector<int> pids = group ? group->pids() : std::vector<int>{0, 0};
    if (write(pipe_fds[1], pids.data(), 2 * sizeof(int)) < 0) _exit(1);
    pause();
  }
  int pids[2] = {0, 0};
  ASSERT_EQ(read(pipe_fds[0], pids, sizeof(pids)), static_cast<ssize_t>(sizeof(pids)));
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  ASSERT_GT(pids[0], 1);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // A zombie waiting for its new parent to reap it is dead enough.
  const auto alive = [](int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t paren = text.rfind(')');
    return paren != std::string::npos && text.at(paren + 2) != 'Z';
  };
  for (int tries = 0; tries < 1000 && (alive(pids[0]) || alive(pids[1])); ++tries) usleep(10000);
  EXPECT_FALSE(alive(pids[0]));
  EXPECT_FALSE(alive(pids[1]));
}

TEST_F(GroupTest, OptionsAndProgramsAreChecked) {
  GroupOptions options = Options(3);
  EXPECT_EQ(ReasonOf(Group::Start(options).status()), "GROUP_OPTIONS_INVALID");
  options = Options(1);
  options.rank_program = dir_ + "/assay-rank";
  EXPECT_EQ(ReasonOf(Group::Start(options).status()), "RANK_PROGRAM_MISSING");
  options.rank_program = "/bin/false";
  const absl::Status status = Group::Start(options).status();
  EXPECT_EQ(ReasonOf(status), "RANK_START_FAILED");
  EXPECT_THAT(MessageOf(status), HasSubstr("ended with code 1"));
}

// A rank that only saw another one fail answers first; the error named is the other's own.
TEST_F(GroupTest, TheErrorNamedIsThatOfTheRankThatFailed) {
  const std::string program = dir_ + "/fake-rank";
  ASSERT_TRUE(WriteFile(program, R"(#!/bin/bash
printf '{"op":"hello","v":1,"build":")" +
                                     BuildId() + R"(","pid":%d}\n' $$ >&3
read -r init <&3
printf '{"op":"ready","identity":{"replay":{},"capture":null}}\n' >&3
while read -r line <&3; do
  case $line in *shutdown*) exit 0 ;; esac
  id=${line#*'"id":'}
  case $init in
    *'"rank":0'*) code=ABORTED reason=GROUP_RANK_FAILED ;;
    *) code=RESOURCE_EXHAUSTED reason=DISK_FULL; sleep 0.3 ;;
  esac
  printf '{"op":"failed","id":%d,"code":"%s","reason":"%s","message":"m"}\n' "${id%%,*}" $code $reason >&3
done
)")
                  .ok());
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  GroupOptions options = Options(2);
  options.rank_program = program;
  std::unique_ptr<Group> group = Start(options);
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(ReasonOf(group->Run(unit_, dir_ + "/out").status()), "DISK_FULL");
}

// A capture may store some contexts in bf16 and some in F32: whichever comes first, its rows were
// rounded, and a report must not depend on how contexts were grouped.
TEST_F(GroupTest, OneRoundedFileMakesARoundedOperand) {
  std::vector<float> rows(kRows * kHidden);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (float& value : rows) value = normal(random);
  SafetensorsBuilder builder;
  builder.Add("hidden_states", DType::kF32, {kRows, kHidden},
              {reinterpret_cast<const uint8_t*>(rows.data()), rows.size() * sizeof(float)});
  const std::string wide = dir_ + "/wide.safetensors";
  ASSERT_TRUE(WriteFile(wide, builder.Build()).ok());
  std::unique_ptr<Group> group = Start(Options(1));
  ASSERT_NE(group, nullptr);
  unit_["operands"][1]["hidden"][kContexts - 1] = wide;
  const absl::StatusOr<UnitOutcome> done = group->Run(unit_, dir_ + "/out");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->result.at("rounded_operands"), Json::array({"a"}));
}

// Whatever a parent sends instead of commands, the rank says so and leaves.
TEST_F(GroupTest, RankRefusesNonsense) {
  RankSpawn spawn;
  spawn.program = BinDir() + "/assay-rank";
  spawn.log_path = dir_ + "/rank.log";
  absl::StatusOr<std::unique_ptr<RankProcess>> rank = RankProcess::Spawn(spawn);
  ASSERT_TRUE(rank.ok()) << rank.status();
  const std::string line = "{\"op\":\"init\",\"v\":99}\n";
  ASSERT_EQ(write((*rank)->fd(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  std::vector<RankEvent> events;
  while ((*rank)->Receive(&events).ok()) usleep(1000);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<RankHello>(events[0]));
  EXPECT_EQ(ReasonOf(std::get<RankFailed>(events[1]).status), "PROTOCOL_VERSION");
  EXPECT_THAT((*rank)->Obituary(), HasSubstr("ended with code 3"));
}

TEST(AffinityCpus, FollowsTheMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(AffinityCpus(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(AffinityCpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace assay
