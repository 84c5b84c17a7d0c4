// assay_pages_bench: the pages of a large result, against reading the arrays that they are made
// from.
//
//   assay_pages_bench pages [--candidates N] [--contexts N] [--positions N] [--folder DIR]
//
// The result is synthetic: skewed KLD, some thousand documents, eight strata. All candidates have
// the same arrays (hard links to one set of files) under labels of their own; each is read and
// checked. With --folder the result is left there.

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "client/html/write_pages.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/report/candidate_files.h"
#include "storage/report/report.h"
#include "storage/report/summary.h"
#include "tests/bench/bench_util.h"

namespace assay::bench {
namespace {

// SplitMix64: the same numbers everywhere.
class Random {
 public:
  double Uniform() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_ = 1;
};

PositionArrays MakeArrays(uint64_t contexts, uint64_t positions) {
  PositionArrays arrays;
  arrays.positions = contexts * positions;
  for (auto& values : arrays.f64) values.resize(arrays.positions);
  for (auto& values : arrays.i32) values.assign(arrays.positions, 1);
  Random random;
  for (uint64_t c = 0; c < contexts; ++c) {
    const double level = std::exp(1.2 * (random.Uniform() + random.Uniform() - 1));
    for (uint64_t p = 0; p < positions; ++p) {
      const uint64_t i = c * positions + p;
      const double kl =
          level * 2e-3 *
          std::exp(3.2 * (random.Uniform() + random.Uniform() + random.Uniform() - 1.5)) *
          (1 + 2.0 / static_cast<double>(1 + p));
      for (auto& values : arrays.f64) values[i] = kl;
      arrays.f64[static_cast<size_t>(F64Output::kNllRef)][i] =
          -3 * std::log(random.Uniform() + 1e-9);
      arrays.f64[static_cast<size_t>(F64Output::kNllCand)][i] = arrays[F64Output::kNllRef][i] + kl;
      arrays.f64[static_cast<size_t>(F64Output::kDeltaP)][i] = 0.02 * (random.Uniform() - 0.5);
      arrays.f64[static_cast<size_t>(F64Output::kAcceptRate)][i] = 0.97;
      if (kl > 0.03) arrays.i32[static_cast<size_t>(I32Output::kTop1Cand)][i] = 2;
    }
  }
  return arrays;
}

OperandInfo Operand(const std::string& name) {
  OperandInfo operand;
  operand.model = {
      {"files", {{{"path", name + ".gguf"}, {"size", 1000}, {"sha256", Sha256Hex(name)}}}}};
  operand.model_identity = Sha256Hex("identity " + name);
  operand.capture.content_sha256 = Sha256Hex("capture " + name);
  operand.capture.schema = "qwen38-fidelity-capture/2";
  operand.capture.cut_point = "after_final_rmsnorm_before_lm_head";
  return operand;
}

ReportInputs Inputs(uint64_t contexts, uint64_t positions) {
  const char* strata[] = {"code",  "maths",      "dialogue",  "multilingual",
                          "prose", "structured", "technical", "tools"};
  ReportInputs inputs;
  inputs.suite = {.schema = "qwen38-distribution-fidelity/6",
                  .suite_token_sha256 = Sha256Hex("suite"),
                  .manifest_sha256 = Sha256Hex("manifest")};
  inputs.suite.suite_contexts = contexts;
  inputs.suite.context_length = static_cast<int64_t>(positions) + 1;
  for (uint64_t c = 0; c < contexts; ++c) {
    inputs.contexts.push_back({static_cast<int64_t>(c), strata[c % 8],
                               "document-" + std::to_string(c / 2), "analysis", positions});
  }
  inputs.reference = Operand("reference");
  inputs.candidate = Operand("candidate");
  inputs.numeric.policy = "exact";
  inputs.numeric.backend = "cpu-bf16";
  inputs.numeric.kernel_identity = {{"library", "none"}};
  HeadIdentity head;
  head.vocab = 248320;
  head.hidden = 5120;
  head.rounded_sha256 = Sha256Hex("head");
  inputs.heads["own"] = {head, head, MakeArrays(contexts, positions)};
  return inputs;
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) Die(std::string(value.status().message()));
  return std::move(value).value();
}
void Must(const absl::Status& status) {
  if (!status.ok()) Die(std::string(status.message()));
}

void MakeResult(const std::string& out, uint64_t candidates, uint64_t contexts,
                uint64_t positions) {
  const ReportInputs inputs = Inputs(contexts, positions);
  SummaryCandidate candidate;
  candidate.report = Must(BuildReport(inputs));
  CandidateFiles files;
  files.report = Must(ReportBytes(candidate.report));
  files.execution = "{}";
  files.heads["own"] = &inputs.heads.at("own").arrays;
  candidate.report_sha256 = Sha256Hex(files.report);
  std::vector<SummaryCandidate> all;
  for (uint64_t i = 0; i < candidates; ++i) {
    candidate.label = "candidate-" + std::to_string(i);
    all.push_back(candidate);
    const std::string folder = JoinPath(out, candidate.label);
    if (i == 0) {
      Must(WriteCandidateFiles(out, candidate.label, files));
      continue;
    }
    std::filesystem::copy(JoinPath(out, all[0].label), folder,
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::create_hard_links);
  }
  Must(WriteSummaryFiles(out, Must(BuildSummary(all)), all, ""));
}

struct Cost {
  double wall = 0, processor = 0;  // seconds
};

// The bytes of the five arrays that pages need, of every candidate, through one buffer.
Cost ReadOnce(const std::string& out, uint64_t candidates) {
  const double begin = Wall(), processor = Processor();
  std::vector<uint8_t> buffer(1 << 20);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < candidates; ++i) {
    for (const char* name :
         {"kl_ref_cand.f64", "nll_ref.f64", "nll_cand.f64", "top1_ref.i32", "top1_cand.i32"}) {
      const std::string path = out + "/candidate-" + std::to_string(i) + "/positions/own/" + name;
      std::FILE* file = std::fopen(path.c_str(), "rb");
      if (file == nullptr) Die("cannot read " + path);
      for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), file)) > 0;)
        sum += buffer[n - 1];
      std::fclose(file);
    }
  }
  if (sum == 1) std::printf(" ");
  return {Wall() - begin, Processor() - processor};
}

Json PagesRow(const Flags& flags) {
  const uint64_t candidates = Number(flags, "--candidates"), contexts = Number(flags, "--contexts"),
                 positions = Number(flags, "--positions");
  const bool keep = !flags.at("--folder").empty();
  const std::string fresh = std::filesystem::temp_directory_path().string() +
                            "/assay-pages-bench-" + std::to_string(getpid());
  const std::string out = keep ? flags.at("--folder") : fresh;
  // In a process of its own: the arrays that it makes lie in memory.
  InChild([&]() -> Json {
    MakeResult(out, candidates, contexts, positions);
    return {{"made", true}};
  });
  const Cost read = ReadOnce(out, candidates);
  const Json written = InChild([&]() -> Json {
    const double begin = Wall(), processor = Processor();
    const PagesWritten pages = Must(WritePages({out, "", "", ""}));
    return {{"seconds", Wall() - begin},
            {"processor_seconds", Processor() - processor},
            {"peak", PeakMemory()},
            {"largest_page", pages.largest}};
  });
  if (!keep) Must(RemoveTree(out));
  Json result = written;
  result["read_seconds"] = read.wall;
  result["ratio"] = {{"wall", written["seconds"].get<double>() / read.wall},
                     {"processor", written["processor_seconds"].get<double>() / read.processor}};
  return result;
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  using namespace assay::bench;
  Flags flags = {
      {"--candidates", "10"}, {"--contexts", "512"}, {"--positions", "2047"}, {"--folder", ""}};
  if (argc < 2 || std::string(argv[1]) != "pages")
    Die("usage: assay_pages_bench pages [--candidates N] ...");
  ReadFlags(argc, argv, 2, &flags);
  std::cout << PagesRow(flags).dump() << "\n";
  return 0;
}
