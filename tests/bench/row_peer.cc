#include <fcntl.h>

#include <array>
#include <cstdio>

#include "tests/bench/replay_rows.h"
#include "tests/bench/replay_runs.h"

namespace assay::bench {
namespace {

// The peer maps this process's memory by its descriptors, so that no file is written. Its last line
// is {"default": seconds, "fp32": seconds, "isa": ...}; null where it cannot run.
Json RunPeer(const Flags& flags, Data* data) {
  std::string command = flags.at("--peer-env");
  const auto word = [&](const std::string& text) { command += " '" + text + "'"; };
  word(flags.at("--python"));
  word(flags.at("--peer-script"));
  word(flags.at("--peer-qf"));
  for (const char* name : {"--vocab", "--hidden", "--positions", "--threads", "--peer-repeats"}) {
    word(flags.at(name));
  }
  word(std::to_string(data->head.descriptor()));
  for (const auto& rows : data->rows) word(std::to_string(rows->descriptor()));
  std::fflush(stdout);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return nullptr;
  std::string text;
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text = buffer.data();
  if (pclose(pipe) != 0) return nullptr;
  const auto json = ParseJson(text, "the peer's last line");
  return json.ok() ? *json : Json(nullptr);
}

Json TimeReplay(const ReplayPlan& plan, const Flags& flags, Samples* samples) {
  auto single = CreateCollective({}).value();
  WholeReplay replay(plan, static_cast<int>(Number(flags, "--threads")), *single);
  replay.Run();
  for (uint64_t r = 0; r < Number(flags, "--repeats"); ++r) {
    samples->Take([&] { replay.Run(); });
  }
  return samples->ToJson();
}

}  // namespace

Json PeerRow(const Flags& flags) {
  Shape shape;
  shape.vocab = Number(flags, "--vocab");
  shape.hidden = Number(flags, "--hidden");
  shape.rows = Number(flags, "--positions");
  shape.candidates = static_cast<int>(Number(flags, "--candidates"));
  Data data(shape);
  ReplayPlan one = data.plan;
  one.comparisons.resize(1);
  one.operands.resize(2);
  Samples one_time, all_time;
  Json out;
  out["replay"] = TimeReplay(one, flags, &one_time);
  out["replay_all"] =
      shape.candidates > 1 ? TimeReplay(data.plan, flags, &all_time) : Json(nullptr);
  const Json peer = RunPeer(flags, &data);
  out["peer"] = peer;
  if (peer.is_null()) return out;
  for (const char* clock : {"wall", "processor"}) {
    const auto own = [&](const Samples& s) { return clock[0] == 'w' ? s.wall() : s.processor(); };
    out["default"][clock] = peer["default"][clock].get<double>() / own(one_time);
    out["fp32"][clock] = peer["fp32"][clock].get<double>() / own(one_time);
    if (shape.candidates > 1) {
      out["all"][clock] = shape.candidates * peer["default"][clock].get<double>() / own(all_time);
    }
  }
  return out;
}

}  // namespace assay::bench
