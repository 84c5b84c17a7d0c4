// Load on a real assayd over a Unix socket, with simulated workers that poll, take leases and
// deliver results which are vetted and sealed like any other.
//
//   assay_load_bench queue|trickle [--bin DIR] [--dir DIR] [--suite DIR] [--workers N] [--runs N]
//                                  [--few N] [--leases N] [--passes N] [--trickle N]
//
// queue: `--runs` runs of 32 units wait while workers poll; the same with `--few`. trickle: workers
// wait in long polls and runs come one at a time; the same with kFewWorkers.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "assay/v1/run.grpc.pb.h"
#include "tests/bench/bench_util.h"
#include "tests/bench/coordinator.h"
#include "tests/bench/load_pollers.h"
#include "tests/bench/load_setup.h"

namespace assay::bench {
namespace {

constexpr int kCreators = 32, kGetRunEveryUs = 5'000, kLookUs = 500;
constexpr uint64_t kFewWorkers = kUnitsPerRun;
constexpr double kPatience = 300;  // seconds

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

// {"p50","p99"} in milliseconds, and how many.
Json Latency(const std::vector<double>& seconds) {
  return {{"p50_ms", 1e3 * Quantile(seconds, 0.5)},
          {"p99_ms", 1e3 * Quantile(seconds, 0.99)},
          {"calls", seconds.size()}};
}

void WaitUntil(const std::function<bool()>& done, const char* what) {
  const double begin = Wall();
  while (!done()) {
    if (Wall() - begin > kPatience) Die(std::string("waited in vain for ") + what);
    ::usleep(kLookUs);
  }
}

// Calls GetRun of one run after another while it lives.
class RunReader {
 public:
  RunReader(const Coordinator& coordinator, std::vector<std::string> runs)
      : runs_(std::move(runs)), channel_(coordinator.Connect()), thread_([this] { Loop(); }) {}
  ~RunReader() { Stop(); }
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;
  std::vector<double> Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return seconds_;
  }

 private:
  void Loop() {
    const auto stub = v1::RunService::NewStub(channel_);
    for (size_t i = 0; !stop_; i += 7) {
      grpc::ClientContext context;
      v1::GetRunRequest request;
      request.set_name(runs_[i % runs_.size()]);
      v1::Run run;
      const double begin = Wall();
      if (!stub->GetRun(&context, request, &run).ok()) Die("GetRun failed");
      seconds_.push_back(Wall() - begin);
      ::usleep(kGetRunEveryUs);
    }
  }

  std::vector<std::string> runs_;
  std::vector<double> seconds_;
  std::atomic<bool> stop_{false};
  std::shared_ptr<grpc::Channel> channel_;
  std::thread thread_;
};

std::vector<std::string> CreateRuns(const Load& load, uint64_t count) {
  std::vector<std::string> names(count);
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> creators;
  for (int i = 0; i < kCreators; ++i) {
    creators.emplace_back([&] {
      for (uint64_t at = next++; at < count; at = next++)
        names[at] = load.CreateRun("q" + std::to_string(at));
    });
  }
  for (std::thread& creator : creators) creator.join();
  return names;
}

// One run from its creation to its last accepted result: afterwards every blob is there.
void WarmUp(const Coordinator& coordinator, Load* load) {
  load->CreateRun("warm");
  const Pollers one(coordinator, load, 1);
  WaitUntil([&] { return one.accepted() == kUnitsPerRun; }, "the first run");
}

// SIGTERM while workers poll; seconds until the coordinator has ended.
double Drain(Coordinator* coordinator, Pollers* pollers) {
  pollers->ExpectTheEnd();
  const double begin = Wall();
  coordinator->Terminate();
  if (coordinator->WaitForExit() != 0) Die("assayd did not end with status 0");
  return Wall() - begin;
}

struct Queued {
  std::vector<double> decisions_per_s;  // of each window
  uint64_t resident = 0;                // bytes, when all runs are queued
  Json json;
};

// `windows` measurements of --leases units each, one after the other, from a queue of `runs`.
Queued WithQueue(const Flags& flags, uint64_t runs, uint64_t windows) {
  Coordinator coordinator(flags.at("--bin") + "/assayd", flags.at("--dir"));
  Load load(coordinator.Connect(), flags.at("--suite"));
  WarmUp(coordinator, &load);
  const uint64_t workers = Number(flags, "--workers"), leases = Number(flags, "--leases");
  const double creating = Wall();
  const std::vector<std::string> names = CreateRuns(load, runs);
  const double created = Wall() - creating;
  Queued out;
  out.resident = coordinator.ResidentBytes();

  Pollers pollers(coordinator, &load, workers);
  WaitUntil([&] { return pollers.granted() >= workers; }, "the first leases");
  static_cast<void>(pollers.Take());
  RunReader reader(coordinator, names);
  const uint64_t first = pollers.granted();
  const double busy = coordinator.ProcessorSeconds();
  for (uint64_t i = 0; i < windows; ++i) {
    const uint64_t from = pollers.granted();
    const double begin = Wall();
    WaitUntil([&] { return pollers.granted() >= from + leases; }, "leases");
    out.decisions_per_s.push_back(static_cast<double>(pollers.granted() - from) / (Wall() - begin));
  }
  const auto decisions = static_cast<double>(pollers.granted() - first);
  const double worked = coordinator.ProcessorSeconds() - busy;
  const Json get_run = Latency(reader.Stop()), synchronize = Latency(pollers.Take());
  out.json = {{"runs", runs},
              {"created_per_s", static_cast<double>(runs) / created},
              {"decisions_per_s", MedianOf(out.decisions_per_s)},
              {"processor_ms_per_decision", 1e3 * worked / decisions},
              {"synchronize", synchronize},
              {"get_run", get_run},
              {"resident_mib", out.resident >> 20},
              {"drain_s", Drain(&coordinator, &pollers)}};
  return out;
}

// --passes coordinators with few runs, and one with many that is measured as often.
Json Queue(const Flags& flags) {
  const uint64_t runs = Number(flags, "--runs"), few = Number(flags, "--few");
  const uint64_t passes = Number(flags, "--passes");
  if (runs <= few) Die("--runs must be more than --few");
  if (few * kUnitsPerRun < Number(flags, "--leases") + 2 * Number(flags, "--workers"))
    Die("--few runs have too few units for --leases");
  std::vector<double> rates;
  Queued less;
  for (uint64_t i = 0; i < passes; ++i) {
    less = WithQueue(flags, few, 1);
    rates.push_back(less.decisions_per_s.front());
  }
  const Queued more = WithQueue(flags, runs, passes);
  const uint64_t added = std::max(more.resident, less.resident) - less.resident;
  return {{"ratio", {{"wall", MedianOf(more.decisions_per_s) / MedianOf(rates)}}},
          {"bytes_per_run", static_cast<double>(added) / static_cast<double>(runs - few)},
          {"few_decisions_per_s", rates},
          {"many_decisions_per_s", more.decisions_per_s},
          {"few", less.json},
          {"many", more.json}};
}

Json TrickleTo(const Flags& flags, uint64_t workers) {
  Coordinator coordinator(flags.at("--bin") + "/assayd", flags.at("--dir"));
  Load load(coordinator.Connect(), flags.at("--suite"));
  WarmUp(coordinator, &load);
  const uint64_t runs = Number(flags, "--trickle");
  Pollers pollers(coordinator, &load, workers);
  ::sleep(1);  // until all of them wait
  std::vector<double> leased;
  const double busy = coordinator.ProcessorSeconds();
  for (uint64_t i = 0; i < runs; ++i) {
    const uint64_t target = (i + 1) * kUnitsPerRun;
    const double begin = Wall();
    load.CreateRun("t" + std::to_string(i));
    WaitUntil([&] { return pollers.granted() >= target; }, "leases of a run");
    leased.push_back(Wall() - begin);
    WaitUntil([&] { return pollers.accepted() >= target; }, "results of a run");
  }
  const double worked = coordinator.ProcessorSeconds() - busy;
  return {{"workers", workers},
          {"all_leased", Latency(leased)},
          {"processor_ms_per_unit", 1e3 * worked / static_cast<double>(runs * kUnitsPerRun)},
          {"drain_s", Drain(&coordinator, &pollers)}};
}

Json Trickle(const Flags& flags) {
  const Json few = TrickleTo(flags, kFewWorkers),
             many = TrickleTo(flags, Number(flags, "--workers"));
  const double ratio =
      many["processor_ms_per_unit"].get<double>() / few["processor_ms_per_unit"].get<double>();
  return {{"ratio", {{"wall", ratio}}}, {"few", few}, {"many", many}};
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  using namespace assay::bench;
  const std::string row = argc > 1 ? argv[1] : "";
  Flags flags = {{"--bin", "."},       {"--dir", "/tmp"},   {"--suite", "deploy/panel/suite"},
                 {"--workers", "256"}, {"--runs", "10000"}, {"--few", "100"},
                 {"--leases", "2500"}, {"--passes", "3"},   {"--trickle", "40"}};
  if (row != "queue" && row != "trickle") Die("usage: assay_load_bench queue|trickle [--NAME N]");
  ReadFlags(argc, argv, 2, &flags);
  std::puts((row == "queue" ? Queue(flags) : Trickle(flags)).dump().c_str());
  return 0;
}
