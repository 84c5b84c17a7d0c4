#include "tests/golden/qf.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "tests/golden/qf_checks.h"

namespace assay::golden {
namespace {

constexpr char kFp32[] = "-fp32";
constexpr double kSameSteps = 1e-7;  // nats

bool IsFp32(const std::string& name) {
  return name.size() > 5 && name.compare(name.size() - 5, 5, kFp32) == 0;
}

// Values of positions/NAME.safetensors or oracle/NAME.safetensors, contexts of `rows` in order.
absl::StatusOr<std::vector<double>> Stored(const SafetensorsFile& file, const Json& rows,
                                           const std::string& field, bool integers) {
  std::vector<double> out;
  for (const Json& row : rows) {
    char name[160];
    snprintf(name, sizeof(name), "%04lld.%s", row.at("index").get<long long>(), field.c_str());
    std::vector<double> values;
    if (integers) {
      ASSAY_ASSIGN_OR_RETURN(const std::vector<int64_t> ints, Ints(file, name));
      values.assign(ints.begin(), ints.end());
    } else {
      ASSAY_ASSIGN_OR_RETURN(values, Doubles(file, name));
    }
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

void CompareArray(const std::string& group, const std::string& field,
                  const std::vector<double>& got, const std::vector<double>& want, double limit,
                  Checks* checks) {
  checks->Equal(field + ": positions", got.size(), want.size());
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    checks->Near(group, field + "[" + std::to_string(i) + "]", got[i], want[i],
                 limit > 0 ? limit : OracleLimit(want[i]));
  }
}

// Logits being the same, three positions of four differ by the order of additions alone: the
// published steps are taken, and not merely met within the limit.
void CheckSteps(const std::vector<double>& got, const std::vector<double>& want, Checks* checks) {
  std::vector<double> off;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    off.push_back(std::fabs(got[i] - want[i]));
  }
  std::sort(off.begin(), off.end());
  const double third_quartile = off.empty() ? 0 : off[off.size() * 3 / 4];
  checks->Near("third quartile", "third quartile of |kl - peer|", third_quartile, 0, kSameSteps);
}

class Qf {
 public:
  Qf(const QfFolder& folder, const Options& options, Tally* tally)
      : folder_(folder), tally_(*tally), replays_(folder, options) {}

  void Report(const std::string& name);
  void Window(const std::string& name);
  void Oracle(const std::string& name);
  void Statistics(const std::string& name, const std::string& logits, const Json& want);

 private:
  // Runs `check`; whatever goes wrong is the case's problem.
  template <typename F>
  void Case(const std::string& name, const F& check) {
    Checks checks;
    std::string problem;
    try {
      const absl::Status status = check(&checks);
      problem = status.ok() ? checks.problem() : Describe(status);
    } catch (const nlohmann::json::exception& error) {
      problem = std::string("a field has an unexpected form: ") + error.what();
    }
    checks.Look(name);
    tally_.Case(name, problem);
  }
  absl::StatusOr<QfRun> RunOfName(const std::string& name) const;
  // The run by the policy whose logits are those of exact arithmetic.
  absl::StatusOr<QfResult> ExactResult(QfRun run);
  std::string File(const std::string& folder, const std::string& name) const {
    return JoinPath(JoinPath(folder_.dir, folder), name + ".safetensors");
  }

  const QfFolder& folder_;
  Tally& tally_;
  QfReplays replays_;
};

// "a", or "a-sentinel": report a with that filter.
absl::StatusOr<QfRun> Qf::RunOfName(const std::string& name) const {
  const auto found = folder_.documents.find(name);
  if (found != folder_.documents.end()) return RunOfReport(found->second, "exact");
  const size_t dash = name.rfind('-');
  const auto base = folder_.documents.find(name.substr(0, dash));
  if (dash == std::string::npos || base == folder_.documents.end()) {
    return absl::NotFoundError("no report says what run " + name + " is");
  }
  QfRun run = RunOfReport(base->second, "exact");
  run.filter = name.substr(dash + 1);
  return run;
}

absl::StatusOr<QfResult> Qf::ExactResult(QfRun run) {
  ASSAY_ASSIGN_OR_RETURN(QfResult result, replays_.Get(run));
  if (result.exact) return result;
  run.policy = "fp64-audit";
  return replays_.Get(run);
}

void Qf::Report(const std::string& name) {
  const Json& report = folder_.documents.at(name);
  const bool fp32 = IsFp32(name);
  const QfRun run = RunOfReport(report, fp32 ? "exact" : "torch-bf16");
  Case("report " + name, [&](Checks* checks) -> absl::Status {
    ASSAY_ASSIGN_OR_RETURN(const QfResult got, replays_.Get(run));
    ComparePublished(got, report, checks);
    return absl::OkStatus();
  });
  const std::string path = File("positions", fp32 ? name.substr(0, name.size() - 5) : name);
  if (!FileExists(path)) return;
  Case("positions " + name, [&](Checks* checks) -> absl::Status {
    ASSAY_ASSIGN_OR_RETURN(const QfResult got, replays_.Get(run));
    ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
    const Json& rows = report.at("per_context_all");
    const std::string kind = fp32 ? "fp32" : "bf16";
    ASSAY_ASSIGN_OR_RETURN(const auto kl, Stored(*file, rows, kind + ".kl", false));
    ASSAY_ASSIGN_OR_RETURN(const auto jsd, Stored(*file, rows, kind + ".jsd_bits", false));
    CompareArray("kl", "kl", got.arrays[F64Output::kKlRefCand], kl, kPeerKl, checks);
    CompareArray("jsd", "jsd_bits", got.arrays[F64Output::kJsdBits], jsd, kPeerJsd, checks);
    CheckStoredPositions(kl, report, checks);
    if (run.vocab_chunk > 0 && got.exact) CheckSteps(got.arrays[F64Output::kKlRefCand], kl, checks);
    return absl::OkStatus();
  });
}

// Scoring from position N gives the bits of scoring everything, without the first N positions.
void Qf::Window(const std::string& name) {
  const Json& report = folder_.documents.at(name);
  QfRun run = RunOfReport(report, "torch-bf16");
  if (run.score_from == 0) return;
  Case("window " + name, [&](Checks* checks) -> absl::Status {
    ASSAY_ASSIGN_OR_RETURN(const QfResult part, replays_.Get(run));
    const auto first = static_cast<size_t>(run.score_from);
    run.score_from = 0;
    ASSAY_ASSIGN_OR_RETURN(const QfResult whole, replays_.Get(run));
    const auto compare = [&](const auto& scored, const auto& all, const std::string& output) {
      std::decay_t<decltype(all)> kept;
      size_t begin = 0;
      for (const Json& row : whole.head.at("contexts")) {
        const auto end = begin + row.at("positions").get<size_t>();
        for (size_t i = begin + first; i < end; ++i) kept.push_back(all[i]);
        begin = end;
      }
      if (scored != kept) checks->Fail(output, "another array", "the later positions");
    };
    for (size_t i = 0; i < kF64Outputs.size(); ++i) {
      compare(part.arrays.f64[i], whole.arrays.f64[i], std::string(kF64Outputs[i]));
    }
    for (size_t i = 0; i < kI32Outputs.size(); ++i) {
      compare(part.arrays.i32[i], whole.arrays.i32[i], std::string(kI32Outputs[i]));
    }
    return absl::OkStatus();
  });
}

// oracle/NAME.safetensors: every output, from exact logits.
void Qf::Oracle(const std::string& name) {
  Case("oracle " + name, [&](Checks* checks) -> absl::Status {
    ASSAY_ASSIGN_OR_RETURN(const QfRun run, RunOfName(name));
    ASSAY_ASSIGN_OR_RETURN(const QfResult got, ExactResult(run));
    ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(File("oracle", name)));
    const Json& rows = got.head.at("contexts");
    for (const auto& [field, output] : {std::pair("kl_fwd", F64Output::kKlRefCand),
                                        {"kl_rev", F64Output::kKlCandRef},
                                        {"jsd_bits", F64Output::kJsdBits},
                                        {"nll_ref", F64Output::kNllRef},
                                        {"nll_cand", F64Output::kNllCand},
                                        {"entropy_ref", F64Output::kEntropyRef},
                                        {"entropy_cand", F64Output::kEntropyCand},
                                        {"delta_p", F64Output::kDeltaP}}) {
      ASSAY_ASSIGN_OR_RETURN(const auto want, Stored(*file, rows, field, false));
      CompareArray(field, field, got.arrays[output], want, 0, checks);
    }
    for (const auto& [field, output] : {std::pair("argmax_ref", I32Output::kTop1Ref),
                                        {"argmax_cand", I32Output::kTop1Cand},
                                        {"ties_ref", I32Output::kTiesRef},
                                        {"ties_cand", I32Output::kTiesCand}}) {
      ASSAY_ASSIGN_OR_RETURN(const auto want, Stored(*file, rows, field, true));
      const std::vector<int32_t>& ints = got.arrays[output];
      checks->Equal(field, std::vector<double>(ints.begin(), ints.end()), want);
    }
    return absl::OkStatus();
  });
}

// Statistics of oracle/stats.json: from exact logits, or from those rounded to bf16.
void Qf::Statistics(const std::string& name, const std::string& logits, const Json& want) {
  Case("statistics " + name + " " + logits, [&](Checks* checks) -> absl::Status {
    ASSAY_ASSIGN_OR_RETURN(QfRun run, RunOfName(name));
    absl::StatusOr<QfResult> got = absl::InternalError("");
    if (logits == "exact") {
      got = ExactResult(run);
    } else {
      run.policy = "torch-bf16";
      got = replays_.Get(run);
    }
    ASSAY_RETURN_IF_ERROR(got.status());
    const bool rounded_inexact = run.policy == "torch-bf16" && !got->exact;
    CompareStatistics(got->head, want, rounded_inexact ? kPeerKl : 0, checks);
    return absl::OkStatus();
  });
}

}  // namespace

void CheckQfReplays(const QfFolder& folder, const Options& options, Tally* tally) {
  Qf qf(folder, options, tally);
  for (const auto& [name, document] : folder.documents) {
    if (!folder.IsReport(name)) continue;
    try {
      qf.Report(name);
      qf.Window(name);
    } catch (const nlohmann::json::exception& error) {
      tally->Case("report " + name, std::string("lacks a field: ") + error.what());
    }
  }
  const std::string oracle = JoinPath(folder.dir, "oracle");
  const auto names = ListDirectory(oracle);
  for (const std::string& file : names.ok() ? *names : std::vector<std::string>()) {
    const size_t dot = file.rfind(".safetensors");
    if (dot != std::string::npos) qf.Oracle(file.substr(0, dot));
  }
  const absl::StatusOr<Json> stats = ReadJsonFile(JoinPath(oracle, "stats.json"));
  if (!stats.ok()) return;
  for (const auto& [name, by_logits] : stats->items()) {
    for (const auto& [logits, want] : by_logits.items()) qf.Statistics(name, logits, want);
  }
}

int RunQf(const Options& options) {
  Tally tally;
  const absl::StatusOr<QfFolder> folder = OpenQfFolder(options.dir);
  if (!folder.ok()) {
    tally.Case("reports", Describe(folder.status()));
    return tally.Finish();
  }
  CheckQfDocuments(*folder, &tally);
  CheckQfReplays(*folder, options, &tally);
  return tally.Finish();
}

}  // namespace assay::golden
