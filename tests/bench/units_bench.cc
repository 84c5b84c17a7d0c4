// What a unit costs the core alone (no store, no network) among many and among few: seconds and
// rows looked at from its lease to its result.
//
//   assay_units_bench [--many UNITS] [--few UNITS] [--passes N]

#include <cstdio>
#include <vector>

#include "server/core/core_scale_queue.h"
#include "storage/base/json.h"
#include "tests/bench/bench_util.h"

namespace assay::bench {
namespace {

struct Cost {
  double us = 0, rows = 0;  // of each unit; processor time
};

Cost Measure(uint64_t units) {
  ScaleQueue queue(static_cast<int64_t>((units + kUnitsPerRun - 1) / kUnitsPerRun));
  const double begin = Processor();
  Cost cost;
  cost.rows = queue.Work();
  cost.us = 1e6 * (Processor() - begin) / static_cast<double>(queue.units());
  return cost;
}

Json Units(const Flags& flags) {
  const uint64_t many = Number(flags, "--many"), few = Number(flags, "--few");
  std::vector<double> us;
  Cost less;
  for (uint64_t i = 0; i < Number(flags, "--passes"); ++i) {
    less = Measure(few);
    us.push_back(less.us);
  }
  less.us = MedianOf(us);
  const Cost more = Measure(many);
  return {{"ratio", {{"wall", more.us / less.us}}},
          {"units", {few, many}},
          {"us_per_unit", {less.us, more.us}},
          {"rows_per_unit", {less.rows, more.rows}},
          {"peak_mib", PeakMemory() >> 20}};
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  using namespace assay::bench;
  Flags flags = {{"--many", "1000000"}, {"--few", "1000"}, {"--passes", "51"}};
  ReadFlags(argc, argv, 1, &flags);
  std::puts(Units(flags).dump().c_str());
  return 0;
}
