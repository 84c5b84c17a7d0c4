// Ratios of a replay within one run, as JSON: the rows of tests/bench/run.sh, which makes the
// table.
//
//   assay_replay_bench ROW [--name value]...

#include <cstdio>
#include <map>

#include "tests/bench/replay_rows.h"
#include "worker/replay/replay.h"

int main(int argc, char** argv) {
  using assay::Json;
  using assay::bench::Flags;
  const std::map<std::string, Json (*)(const Flags&)> rows = {
      {"products", assay::bench::ProductsRow}, {"threads", assay::bench::ThreadsRow},
      {"ranks", assay::bench::RanksRow},       {"contexts", assay::bench::ContextsRow},
      {"long", assay::bench::LongContextRow},  {"memory", assay::bench::MemoryRow},
      {"metric", assay::bench::MetricRow},     {"peer", assay::bench::PeerRow},
      {"captures", assay::bench::CapturesRow}, {"many", assay::bench::ManyRow}};
  Flags flags = {{"--vocab", "49152"},
                 {"--hidden", "576"},
                 {"--positions", "256"},
                 {"--candidates", "1"},
                 {"--row-tile", std::to_string(assay::ReplayPlan().row_tile)},
                 {"--threads", "2"},
                 {"--repeats", "5"},
                 {"--suite", "deploy/panel/suite"},
                 {"--filter", "sentinel"},
                 {"--reference", ""},
                 {"--candidate", ""},
                 {"--head", ""},
                 {"--python", "python3"},
                 {"--peer-qf", ""},
                 {"--peer-script", "tests/bench/replay_peer.py"},
                 {"--peer-env", "env"},
                 {"--peer-repeats", "2"}};
  const auto row = rows.find(argc > 1 ? argv[1] : "");
  if (row == rows.end()) {
    std::string known;
    for (const auto& [name, function] : rows) known += " " + name;
    std::fprintf(stderr, "usage: assay_replay_bench ROW [--name value]...; rows:%s\n",
                 known.c_str());
    return 2;
  }
  assay::bench::ReadFlags(argc, argv, 2, &flags);
  std::printf("%s\n", row->second(flags).dump().c_str());
  return 0;
}
