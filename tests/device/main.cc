// assay-device-test: cuda-bf16 on a machine with a GPU, in one file (tests/device/run.sh). Prints
// one JSON object. Exit status: 0 all passed, 1 something failed, 2 usage, 77 no device (a named
// SKIP).

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "storage/base/status.h"
#include "tests/device/checks.h"
#include "worker/replay/cuda/plugin.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

constexpr int kExitSkip = 77;
constexpr char kUsage[] =
    "usage: assay-device-test [--no-bench] [--contexts N]\n"
    "Tests and measures the replay backend cuda-bf16 on this machine's GPU. Reads tests/data "
    "below\n"
    "ASSAY_SOURCE_DIR (default: this folder). --contexts N: contexts that the benchmark runs "
    "(32).\n"
    "Without a GPU it prints a SKIP and ends with status 77.\n";

int Run(bool bench, const BenchShape& shape) {
  auto device = cuda::OpenCudaDevice(0);
  if (!device.ok()) {
    std::printf("SKIP NO_DEVICE: %s\n", MessageOf(device.status()).c_str());
    return kExitSkip;
  }
  if (MetricFolder().empty()) {
    std::fprintf(stderr, "tests/data/metric is not here; set ASSAY_SOURCE_DIR\n");
    return 2;
  }
  Json out;
  const DeviceIdentity& identity = (*device)->identity();
  out["identity"] = DescribeDevice(identity);
  out["self_test"] = RunSelfTestOnDevice(**device);
  device->reset();
  out["golden"] = CheckGolden();
  out["invariance"] = CheckInvariance();
  out["refusals"] = CheckRefusals();
  if (bench) out["bench"] = RunBench(shape);
  bool passed = true;
  for (const auto& [name, part] : out.items()) {
    if (part.is_object()) passed = passed && part.at("passed").get<bool>();
  }
  out["passed"] = passed;
  std::printf("%s\n", out.dump(2).c_str());
  return passed ? 0 : 1;
}

int Main(int argc, char** argv) {
  bool bench = true;
  BenchShape shape;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--no-bench") {
      bench = false;
    } else if (arg == "--contexts" && i + 1 < argc) {
      const std::string_view n = argv[++i];
      const auto [end, error] = std::from_chars(n.data(), n.data() + n.size(), shape.contexts);
      if (error != std::errc() || end != n.data() + n.size() || shape.contexts < 2 ||
          shape.contexts > 512) {
        std::fprintf(stderr, "--contexts takes 2 to 512\n");
        return 2;
      }
    } else {
      std::fputs(kUsage, arg == "--help" ? stdout : stderr);
      return arg == "--help" ? 0 : 2;
    }
  }
  return Run(bench, shape);
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) { return assay::Main(argc, argv); }
