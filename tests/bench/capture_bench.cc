// Tokens per second of the capture engine on a real model, and of Hugging Face transformers on the
// same model, texts and threads in the same run.
//
//   assay_capture_bench --model FILE.gguf --suite DIR [--threads N] [--contexts N] [--passes N]
//                       [--peer PYTHON] [--batch-tokens N]
//
// The peer is optional: without --peer, or where that Python lacks torch or transformers, it is
// skipped and said so. CPU rates (tokens per second of CPU time) are what to read on a busy
// machine.

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/format/suite.h"
#include "worker/capture/native_engine.h"
#include "worker/collective/collective.h"

namespace assay {
namespace {

struct Rates {
  double wall = 0, cpu = 0;  // tokens per second of each
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double CpuNow() { return double(std::clock()) / CLOCKS_PER_SEC; }

int Fail(const std::string& what) {
  std::fprintf(stderr, "assay_capture_bench: %s\n", what.c_str());
  return 1;
}

Rates RunEngine(const CaptureRequest& request, uint64_t tokens, int passes, size_t batch_tokens,
                bool* ok) {
  capture::NativeEngine engine(batch_tokens);
  auto alone = CreateCollective({});
  *ok = alone.ok();
  if (!*ok) return {};
  CaptureRequest warm = request;
  warm.contexts.resize(1);
  *ok = engine.Capture(warm, **alone, {}, nullptr).ok();
  Rates best;
  for (int pass = 0; *ok && pass < passes; ++pass) {
    CaptureCounters counters;
    const double products = engine.product_seconds(), wall = Now(), cpu = CpuNow();
    const auto outputs = engine.Capture(request, **alone, {}, &counters);
    const double wall_spent = Now() - wall, cpu_spent = CpuNow() - cpu;
    const double products_spent = engine.product_seconds() - products;
    *ok = outputs.ok();
    if (!*ok) {
      std::fprintf(stderr, "%s\n", outputs.status().ToString().c_str());
      break;
    }
    best.wall = std::max(best.wall, double(tokens) / wall_spent);
    best.cpu = std::max(best.cpu, double(tokens) / cpu_spent);
    std::printf(
        "engine  pass %d: %.0f tokens/s, %.0f tokens/CPU s; products %.0f %% of the time, "
        "%.0f Gflop/s\n",
        pass, double(tokens) / wall_spent, double(tokens) / cpu_spent,
        100 * products_spent / wall_spent, 2e-9 * double(counters.multiply_adds) / products_spent);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("engine  peak memory %ld MiB\n", usage.ru_maxrss / 1024);
  return best;
}

// The peer prints {"wall": tokens/s, "cpu": tokens/CPU s} as its last line, exit 77 when it cannot
// run.
Rates RunPeer(const std::string& python, const std::string& model, const std::string& contexts,
              int threads, int passes) {
  const char* source = std::getenv("ASSAY_SOURCE_DIR");
  const std::string script =
      JoinPath(source == nullptr ? "." : source, "tests/bench/capture_peer.py");
  const std::string command = "'" + python + "' '" + script + "' '" + model + "' '" + contexts +
                              "' " + std::to_string(threads) + " " + std::to_string(passes);
  std::fflush(stdout);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text = buffer.data();
  if (pclose(pipe) != 0) return {};
  const auto json = ParseJson(text, "the peer's last line");
  if (!json.ok()) return {};
  return {json->value("wall", 0.0), json->value("cpu", 0.0)};
}

int Main(std::map<std::string, std::string> flags) {
  auto suite = ReadSuite(flags["--suite"]);
  if (!suite.ok()) return Fail(suite.status().ToString());
  char folder[] = "/tmp/assay_capture_bench_XXXXXX";
  if (mkdtemp(folder) == nullptr) return Fail("cannot make a folder in /tmp");
  CaptureRequest request;
  request.model_path = flags["--model"];
  request.out_dir = folder;
  request.threads = std::atoi(flags["--threads"].c_str());
  uint64_t tokens = 0;
  Json ids = Json::array();
  for (const SuiteContext& context : suite->contexts) {
    if (request.contexts.size() >= std::stoul(flags["--contexts"])) break;
    request.contexts.push_back({context.index, context.tokens});
    tokens += context.tokens.size();
    ids.push_back(context.tokens);
  }
  const int passes = std::atoi(flags["--passes"].c_str());
  bool ok = false;
  const Rates own = RunEngine(request, tokens, passes, std::stoul(flags["--batch-tokens"]), &ok);
  Rates peer;
  const std::string list = JoinPath(folder, "contexts.json");
  if (ok && !flags["--peer"].empty() && WriteFile(list, ids.dump()).ok()) {
    peer = RunPeer(flags["--peer"], request.model_path, list, request.threads, passes);
  }
  RemoveTree(folder).IgnoreError();
  if (!ok) return Fail("the engine failed");
  std::printf("engine  best: %.0f tokens/s, %.0f tokens/CPU s\n", own.wall, own.cpu);
  if (peer.wall == 0) {
    std::printf(
        "peer    skipped (give --peer a Python with torch, transformers, accelerate and gguf)\n");
    return 0;
  }
  std::printf(
      "peer    best: %.0f tokens/s, %.0f tokens/CPU s (transformers, float32, batches of 8)\n",
      peer.wall, peer.cpu);
  std::printf("ratio   %.2f wall, %.2f CPU\n", own.wall / peer.wall, own.cpu / peer.cpu);
  return 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags = {
      {"--model", ""},
      {"--suite", ""},
      {"--threads", "2"},
      {"--contexts", "16"},
      {"--passes", "3"},
      {"--peer", ""},
      {"--batch-tokens", std::to_string(assay::capture::kBatchTokens)}};
  for (int i = 1; i < argc; i += 2) {
    if (!flags.contains(argv[i]) || i + 1 == argc) {
      std::fprintf(stderr,
                   "usage: assay_capture_bench --model FILE --suite DIR [--threads N] "
                   "[--contexts N] [--passes N] [--peer PYTHON] "
                   "[--batch-tokens N]\n");
      return 2;
    }
    flags[argv[i]] = argv[i + 1];
  }
  return assay::Main(std::move(flags));
}
