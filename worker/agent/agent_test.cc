#include "worker/agent/agent.h"

#include <deque>
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/status.h"
#include "worker/agent/test_support.h"
#include "worker/rank/protocol.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class FakeClock : public Clock {
 public:
  int64_t UnixMillis() override { return 0; }
  int64_t MonotonicMillis() override { return now; }
  std::atomic<int64_t> now{1'000'000};
};

// Runs units by a function of the test.
class FakeRunner : public UnitRunner {
 public:
  absl::Status Start() override { return start_status; }
  Json Identity() override { return {{"replay", {{"isa", "fake"}}}, {"capture", nullptr}}; }
  absl::StatusOr<UnitOutcome> Run(const Json& unit, const std::string& out_dir,
                                  const UnitProgress& progress) override {
    ++runs;
    return run(unit, out_dir, progress);
  }
  absl::Status Restart() override {
    ++restarts;
    return absl::OkStatus();
  }
  void Cancel() override { cancelled = true; }
  void Shutdown() override { shut_down = true; }

  absl::Status start_status;
  std::function<absl::StatusOr<UnitOutcome>(const Json&, const std::string&, const UnitProgress&)>
      run;
  std::atomic<int> runs{0}, restarts{0};
  std::atomic<bool> cancelled{false}, shut_down{false};
};

// A coordinator that answers by a function of the test and records requests.
class FakeCoordinator : public CoordinatorLink {
 public:
  void Arm() override {}
  // Gives a wrong agent time to make the call that must not be interrupted; that call takes its
  // time too.
  void Interrupt() override {
    const int before = calls_with_results;
    const bool flying = result_flies;
    std::this_thread::sleep_for(interrupt_takes);
    if (flying || calls_with_results != before) ++results_interrupted;
  }
  absl::StatusOr<v1::SynchronizeResponse> Synchronize(
      const v1::SynchronizeRequest& request) override {
    if (request.results_size() > 0) {
      ++calls_with_results;
      result_flies = true;
      std::this_thread::sleep_for(interrupt_takes);
      result_flies = false;
    }
    const std::lock_guard lock(mutex);
    requests.push_back(request);
    return answer(request);
  }
  std::chrono::milliseconds interrupt_takes{0};
  std::atomic<int> calls_with_results{0}, results_interrupted{0};
  std::atomic<bool> result_flies{false};
  std::mutex mutex;
  std::deque<v1::SynchronizeRequest> requests;
  std::function<absl::StatusOr<v1::SynchronizeResponse>(const v1::SynchronizeRequest&)> answer;
};

v1::Lease ReplayLease(FakeBlobStore* store) {
  const std::string head = store->Put("head");
  v1::Lease lease;
  lease.set_lease_id("1-1");
  lease.set_unit("runs/r/units/0");
  lease.set_kind("replay");
  lease.set_attempt(1);
  lease.set_ttl_ms(30000);
  lease.set_unit_json(R"({"kind":"replay","heads":[{"id":"h0","tensor":"w","sha256":")" + head +
                      R"(","bytes":4}],"operands":[]})");
  return lease;
}

absl::StatusOr<UnitOutcome> WritePositions(const std::string& out_dir) {
  const absl::Status status = WriteFile(JoinPath(out_dir, "positions.safetensors"), "pos");
  if (!status.ok()) return status;
  UnitOutcome outcome;
  outcome.result = {{"file", "positions.safetensors"}, {"sha256", Sha256Hex("pos")}, {"bytes", 3}};
  outcome.counters = {{5, 6}, {7, 8}};
  outcome.attempts = 2;
  return outcome;
}

class AgentTest : public ::testing::Test {
 protected:
  AgentTest() {
    digests_ = *DigestCache::Open("");
    cache_ = *BlobCache::Open(dir_ / "cache", 1 << 20);
    models_ = std::make_unique<ModelResolver>(std::vector<std::string>{}, dir_ / "links",
                                              digests_.get(), cache_.get(), &store_);
    worker_ = std::make_unique<LeaseWorker>(UnitInputs{models_.get(), cache_.get(), &store_},
                                            &runner_, &clock_, dir_ / "work");
    options_.name = "w1";
    options_.incarnation = std::string(32, 'a');
    options_.retry_first_ms = options_.retry_max_ms = 1;
    options_.start_retry_ms = 1;
    options_.busy_wait_ms = 5;
    options_.drain_grace_ms = 0;
  }
  // Runs an agent to its end; `answer` gets each request and may stop the agent.
  absl::Status Run(
      std::function<absl::StatusOr<v1::SynchronizeResponse>(const v1::SynchronizeRequest&)>
          answer) {
    coordinator_.answer = std::move(answer);
    agent_ = std::make_unique<Agent>(options_, &clock_, &coordinator_, &runner_, worker_.get());
    return agent_->Run();
  }
  // Answers that grant `lease` once, renew what is listed and drain after the first result.
  v1::SynchronizeResponse Serve(const v1::SynchronizeRequest& request, const v1::Lease& lease) {
    v1::SynchronizeResponse response;
    response.set_coordinator_epoch(3);
    response.set_next_sync_ms(1);
    for (const v1::LeaseStatus& status : request.leases()) response.add_renewed(status.lease_id());
    if (request.free_slots() > 0 && !granted_) {
      *response.add_start() = lease;
      granted_ = true;
    }
    for (const v1::UnitResult& result : request.results()) {
      results_.push_back(result);
      v1::ResultAck* ack = response.add_acks();
      ack->set_lease_id(result.lease_id());
      ack->set_outcome(v1::ResultAck::ACCEPTED);
      response.set_drain(true);
    }
    return response;
  }

  TempDir dir_;
  FakeClock clock_;
  FakeBlobStore store_;
  FakeRunner runner_;
  FakeCoordinator coordinator_;
  std::unique_ptr<DigestCache> digests_;
  std::unique_ptr<BlobCache> cache_;
  std::unique_ptr<ModelResolver> models_;
  std::unique_ptr<LeaseWorker> worker_;
  AgentOptions options_;
  std::unique_ptr<Agent> agent_;
  bool granted_ = false;
  std::vector<v1::UnitResult> results_;
};

TEST_F(AgentTest, RunsAUnitPushesItsFilesAndReportsOnce) {
  runner_.run = [](const Json& unit, const std::string& out_dir, const UnitProgress& progress) {
    EXPECT_TRUE(FileExists(unit["heads"][0]["file"].get<std::string>()));
    EXPECT_TRUE(progress(1, 2));
    return WritePositions(out_dir);
  };
  const v1::Lease lease = ReplayLease(&store_);
  const absl::Status status =
      Run([&](const v1::SynchronizeRequest& request) { return Serve(request, lease); });
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_EQ(results_[0].lease_id(), "1-1");
  EXPECT_FALSE(results_[0].has_error()) << results_[0].DebugString();
  EXPECT_THAT(results_[0].result_json(), HasSubstr(Sha256Hex("pos")));
  EXPECT_THAT(results_[0].result_json(), Not(HasSubstr("positions.safetensors")));
  EXPECT_EQ(results_[0].counters_json(),
            R"([{"multiply_adds":5,"weight_bytes":6},{"multiply_adds":7,"weight_bytes":8}])");
  EXPECT_EQ(results_[0].rank_attempts(), 2);
  EXPECT_EQ(store_.blobs.count(Sha256Hex("pos")), 1u);
  EXPECT_TRUE(runner_.shut_down);
  EXPECT_EQ(coordinator_.requests.back().coordinator_epoch(), 3u);
  EXPECT_THAT(coordinator_.requests.back().replay_identity_json(), HasSubstr("fake"));
  EXPECT_EQ(coordinator_.requests.back().capture_identity_json(), "");
}

// The interruption is meant for the call before; a result would be sent twice.
TEST_F(AgentTest, TheCallThatCarriesAResultIsNotInterruptedByIt) {
  coordinator_.interrupt_takes = std::chrono::milliseconds(100);
  runner_.run = [](const Json&, const std::string& out_dir, const UnitProgress&) {
    return WritePositions(out_dir);
  };
  const v1::Lease lease = ReplayLease(&store_);
  EXPECT_TRUE(
      Run([&](const v1::SynchronizeRequest& request) { return Serve(request, lease); }).ok());
  EXPECT_EQ(results_.size(), 1u);
  EXPECT_EQ(coordinator_.results_interrupted, 0);
}

TEST_F(AgentTest, TakesNoLeaseBeforeTheRanksRun) {
  runner_.start_status = UnavailableError("RANK_START_FAILED", "no");
  const absl::Status status = Run([&](const v1::SynchronizeRequest& request) {
    EXPECT_EQ(request.free_slots(), 0);
    return v1::SynchronizeResponse();
  });
  EXPECT_EQ(ReasonOf(status), "RANK_START_FAILED");
}

TEST_F(AgentTest, AnUnknownModelIsReportedAndNotRetriedHere) {
  v1::Lease lease = ReplayLease(&store_);
  ModelManifest manifest;
  manifest.files.push_back({"m.gguf", 7, Sha256Hex("weights")});
  lease.set_kind("prepare");
  lease.set_unit_json(R"({"kind":"prepare","model":{"identity":")" + manifest.Identity() +
                      R"(","manifest":)" + manifest.ToJson().dump() + "}}");
  EXPECT_TRUE(
      Run([&](const v1::SynchronizeRequest& request) { return Serve(request, lease); }).ok());
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_EQ(results_[0].error().reason(), "MODEL_NOT_HERE");
  EXPECT_FALSE(results_[0].retryable());
  EXPECT_EQ(runner_.runs, 0);
}

TEST_F(AgentTest, RefusedContentKeepsTheRanksMachineFields) {
  runner_.run = [](const Json&, const std::string&, const UnitProgress&) {
    return WithDetails(InvalidError("NON_FINITE_INPUT", "cand0: context 3, position 7"),
                       Json{{"operand", "cand0"}, {"context", 3}, {"position", 7}});
  };
  const v1::Lease lease = ReplayLease(&store_);
  EXPECT_TRUE(
      Run([&](const v1::SynchronizeRequest& request) { return Serve(request, lease); }).ok());
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_EQ(results_[0].error().reason(), "NON_FINITE_INPUT");
  EXPECT_EQ(results_[0].error().code(), "INVALID_ARGUMENT");
  EXPECT_FALSE(results_[0].retryable());
  EXPECT_EQ((*ParseJson(results_[0].error_fields_json(), "fields"))["position"], 7);
}

// A model file's garbage that an error quotes must not make the result unsendable.
TEST_F(AgentTest, ErrorsThatQuoteBytesOfAFileCanBeSent) {
  runner_.run = [](const Json&, const std::string&, const UnitProgress&) {
    return InvalidError("GGUF_INVALID",
                        "tensor \xff\xfe: " + std::string(4090, 'x') + "\xe2\x82\xac\xe2\x82\xac");
  };
  const v1::Lease lease = ReplayLease(&store_);
  EXPECT_TRUE(
      Run([&](const v1::SynchronizeRequest& request) { return Serve(request, lease); }).ok());
  ASSERT_EQ(results_.size(), 1u);
  const std::string message = results_[0].error().message();
  EXPECT_LE(message.size(), 4096u);
  EXPECT_THAT(message, HasSubstr("tensor ??: xxx"));
  v1::UnitResult back;  // as the coordinator reads it
  EXPECT_TRUE(back.ParseFromString(results_[0].SerializeAsString()));
}

TEST_F(AgentTest, NothingIsPublishedAfterTheLeaseRanOut) {
  runner_.run = [&](const Json&, const std::string& out_dir, const UnitProgress& progress) {
    auto outcome = WritePositions(out_dir);
    clock_.now += 26000;  // the process was stopped for this long
    EXPECT_FALSE(progress(2, 2));
    return outcome;
  };
  const v1::Lease lease = ReplayLease(&store_);
  int quiet = 0;
  EXPECT_TRUE(Run([&](const v1::SynchronizeRequest& request) {
                auto response = Serve(request, lease);
                if (runner_.runs > 0) response.clear_renewed();
                if (runner_.runs > 0 && request.leases_size() == 0 && ++quiet > 3) {
                  response.set_drain(true);
                }
                return response;
              }).ok());
  EXPECT_TRUE(results_.empty());
  EXPECT_EQ(store_.pushes, 0);
}

TEST_F(AgentTest, ALeaseThatIsNotRenewedIsStopped) {
  std::promise<void> stopped;
  runner_.run = [&](const Json&, const std::string&,
                    const UnitProgress& progress) -> absl::StatusOr<UnitOutcome> {
    while (progress(0, 2)) std::this_thread::yield();
    return Error(absl::StatusCode::kCancelled, "CANCELLED", "cancelled");
  };
  const v1::Lease lease = ReplayLease(&store_);
  EXPECT_TRUE(Run([&](const v1::SynchronizeRequest& request) {
                auto response = Serve(request, lease);
                // The coordinator forgets the lease once the unit runs.
                if (runner_.runs > 0) response.clear_renewed();
                if (runner_.runs > 0 && request.leases_size() == 0) response.set_drain(true);
                return response;
              }).ok());
  EXPECT_TRUE(results_.empty());
}

TEST_F(AgentTest, ACancelIsAnswered) {
  runner_.run = [&](const Json&, const std::string&,
                    const UnitProgress& progress) -> absl::StatusOr<UnitOutcome> {
    while (progress(0, 2)) std::this_thread::yield();
    return Error(absl::StatusCode::kCancelled, "CANCELLED", "cancelled");
  };
  const v1::Lease lease = ReplayLease(&store_);
  EXPECT_TRUE(Run([&](const v1::SynchronizeRequest& request) {
                auto response = Serve(request, lease);
                if (request.leases_size() > 0) response.add_cancel("1-1");
                return response;
              }).ok());
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_EQ(results_[0].error().reason(), "LEASE_CANCELLED");
}

TEST_F(AgentTest, StopGivesTheUnitBack) {
  runner_.run = [&](const Json&, const std::string&,
                    const UnitProgress& progress) -> absl::StatusOr<UnitOutcome> {
    agent_->Stop();
    while (progress(0, 2)) std::this_thread::yield();
    return Error(absl::StatusCode::kCancelled, "CANCELLED", "cancelled");
  };
  const v1::Lease lease = ReplayLease(&store_);
  EXPECT_TRUE(
      Run([&](const v1::SynchronizeRequest& request) { return Serve(request, lease); }).ok());
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_EQ(results_[0].error().reason(), "WORKER_LEAVING");
  EXPECT_TRUE(results_[0].retryable());
  EXPECT_TRUE(runner_.shut_down);
}

TEST_F(AgentTest, AStrayCancelDoesNotFailTheNextUnit) {
  runner_.run = [&](const Json&, const std::string& out_dir,
                    const UnitProgress&) -> absl::StatusOr<UnitOutcome> {
    if (runner_.runs == 1) return Error(absl::StatusCode::kCancelled, "CANCELLED", "stray");
    return WritePositions(out_dir);
  };
  const v1::Lease lease = ReplayLease(&store_);
  EXPECT_TRUE(
      Run([&](const v1::SynchronizeRequest& request) { return Serve(request, lease); }).ok());
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_FALSE(results_[0].has_error());
  EXPECT_EQ(runner_.runs, 2);
}

TEST_F(AgentTest, ResultsAreRepeatedUntilAcknowledged) {
  runner_.run = [](const Json&, const std::string& out_dir, const UnitProgress&) {
    return WritePositions(out_dir);
  };
  const v1::Lease lease = ReplayLease(&store_);
  int lost = 0;
  EXPECT_TRUE(
      Run([&](const v1::SynchronizeRequest& request) -> absl::StatusOr<v1::SynchronizeResponse> {
        if (request.results_size() > 0 && ++lost <= 2) {
          return UnavailableError("SERVER_UNREACHABLE", "the answer was lost");
        }
        return Serve(request, lease);
      }).ok());
  EXPECT_EQ(lost, 3);
  ASSERT_EQ(results_.size(), 1u);
}

TEST_F(AgentTest, AReplacedWorkerLeaves) {
  const absl::Status status =
      Run([&](const v1::SynchronizeRequest&) -> absl::StatusOr<v1::SynchronizeResponse> {
        return PreconditionError("WORKER_REPLACED", "a newer one has registered");
      });
  EXPECT_EQ(ReasonOf(status), "WORKER_REPLACED");
  EXPECT_TRUE(runner_.shut_down);
}

TEST_F(AgentTest, FreshRanksAreFresh) {
  runner_.run = [](const Json&, const std::string& out_dir, const UnitProgress&) {
    absl::Status status = WriteFile(JoinPath(out_dir, "h"), "hid");
    UnitOutcome outcome;
    outcome.result = {{"files", Json::array({{{"index", 0},
                                              {"file", "h"},
                                              {"sha256", Sha256Hex("hid")},
                                              {"bytes", 3},
                                              {"rows", 1},
                                              {"width", 1}}})},
                      {"identity", Json::object()}};
    return outcome;
  };
  store_.Put("weights");
  ModelManifest manifest;
  manifest.files.push_back({"m.gguf", 7, Sha256Hex("weights")});
  v1::Lease lease = ReplayLease(&store_);
  lease.set_kind("capture");
  lease.set_unit_json(R"({"kind":"capture","contexts":[],"taps":[],"fresh_ranks":true,)"
                      R"("model":{"identity":")" +
                      manifest.Identity() + R"(","manifest":)" + manifest.ToJson().dump() + "}}");
  EXPECT_TRUE(
      Run([&](const v1::SynchronizeRequest& request) { return Serve(request, lease); }).ok());
  ASSERT_EQ(results_.size(), 1u);
  EXPECT_FALSE(results_[0].has_error()) << results_[0].DebugString();
  EXPECT_EQ(runner_.restarts, 1);
}

}  // namespace
}  // namespace assay
