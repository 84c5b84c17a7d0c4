#include "worker/replay/cuda/case_check.h"

#include <cmath>
#include <map>
#include <thread>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/cuda/device_run.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

absl::StatusOr<ReplayResult> RunRank(const ReplayPlan& plan, Collective& collective,
                                     ReplayDevice& device) {
  ASSAY_ASSIGN_OR_RETURN(const Job job, ResolveJob(plan, collective.rank(), collective.size()));
  HeadStore store;
  ThreadPool pool(1);
  ASSAY_ASSIGN_OR_RETURN(const Prepared prepared, PrepareRun(job, &store, pool, collective));
  return RunOnDevice(job, prepared, device, collective, nullptr, nullptr);
}

std::string Mismatch(const std::string& field, size_t position, double got, double want) {
  return field + " at " + std::to_string(position) + " is " + std::to_string(got) + ", not " +
         std::to_string(want);
}

std::string CheckMetricInts(const Json& test_case, const ReplayRows& rows) {
  for (const MetricField& f : kMetricInts) {
    const auto want = ExpectedOf<int64_t>(test_case, f.fixture);
    for (size_t i = 0; i < want.size(); ++i) {
      const int64_t got = rows.i32[f.output].at(i);
      if (got != want[i]) {
        return Mismatch(f.fixture, i, static_cast<double>(got), static_cast<double>(want[i]));
      }
    }
  }
  for (size_t i = 0; i < rows.f64[0].size(); ++i) {
    const bool same = rows.i32[0][i] == rows.i32[1][i];
    if ((rows.i32[4][i] == 0) != same) return Mismatch("rank_top1_ref", i, rows.i32[4][i], !same);
    for (int k : {0, 1, 2, 8}) {
      if (!(rows.f64[k][i] >= 0))
        return Mismatch(std::string(kReplayF64Names[k]), i, rows.f64[k][i], 0);
    }
  }
  return "";
}

// Logits known exactly: 1e-9 + 1e-7 relative.
std::string CheckClosely(const Json& test_case, const ReplayRows& rows, double* worst) {
  for (const MetricField& f : kMetricFloats) {
    const auto want = ExpectedOf<double>(test_case, f.fixture);
    for (size_t i = 0; i < want.size(); ++i) {
      const double got = rows.f64[f.output].at(i);
      if (got == want[i] || (std::isnan(got) && std::isnan(want[i]))) continue;
      const double error = std::fabs(got - want[i]);
      if (!(error <= 1e-9 + 1e-7 * std::fabs(want[i]))) return Mismatch(f.fixture, i, got, want[i]);
      // delta_p is a difference of probabilities: its error is one of them times that of ln S.
      const double floor = f.output == 7 ? 1e-3 : 1e-6;
      *worst = std::max(*worst, error / std::max(std::fabs(want[i]), floor));
    }
  }
  for (int k : {0, 1, 2}) {
    for (const double value : rows.f64[k]) {
      if (test_case.value("zero", false) && value != 0) return "self-comparison is not exactly 0";
    }
  }
  return "";
}

// fp32 sums move ordinary logits by up to fp32_logit_tol; the fixture says how far KL may follow.
std::string CheckLoosely(const Json& test_case, const ReplayRows& rows) {
  const auto want = ExpectedOf<double>(test_case, "kl_fwd");
  const auto tolerance = ExpectedOf<double>(test_case, "kl_fwd_fp32_tol");
  const double logit = test_case.at("fp32_logit_tol").get<double>();
  for (size_t i = 0; i < want.size(); ++i) {
    const double got = rows.f64[0].at(i);
    if (!(std::fabs(got - want[i]) <= tolerance[i] + 1e-9))
      return Mismatch("kl_fwd", i, got, want[i]);
    for (const MetricField& f : {MetricField{"nll_ref", 3}, MetricField{"nll_cand", 4}}) {
      const double nll = ExpectedOf<double>(test_case, f.fixture)[i];
      const double mine = rows.f64[f.output].at(i);
      if (std::isnan(nll) && std::isnan(mine)) continue;
      if (!(std::fabs(mine - nll) <= 2 * logit + 1e-9)) return Mismatch(f.fixture, i, mine, nll);
    }
  }
  return "";
}

std::string CheckRefusal(const Json& test_case, const absl::Status& status) {
  static const std::map<std::string, std::string> kTokens = {
      {"non_finite_hidden", "NON_FINITE_INPUT"},    {"non_finite_head", "NON_FINITE_INPUT"},
      {"non_finite_logit", "NON_FINITE_INPUT"},     {"no_finite_column", "NO_FINITE_COLUMN"},
      {"token_out_of_range", "TOKEN_OUT_OF_RANGE"}, {"infinite_kl", "INFINITE_POSITION"}};
  const Json& want = test_case.at("refusal");
  const std::optional<ReplayRefusal> got = RefusalOf(status);
  if (!got) return "not refused: " + status.ToString();
  const auto number = [&](const char* key) -> std::optional<int64_t> {
    return want.at(key).is_null() ? std::nullopt : std::optional(want.at(key).get<int64_t>());
  };
  const std::string operand =
      want.at("operand").is_null() ? "" : want.at("operand").get<std::string>();
  const bool same = got->reason == kTokens.at(want.at("reason").get<std::string>()) &&
                    got->operand == operand && got->position == number("position") &&
                    got->column == number("column");
  return same ? "" : "refused otherwise than expected: " + status.ToString();
}

}  // namespace

absl::StatusOr<ReplayResult> RunOnDevices(ReplayPlan plan,
                                          const std::vector<ReplayDevice*>& devices) {
  plan.backend = ReplayBackend::kCudaBf16;
  const int ranks = static_cast<int>(devices.size());
  auto group = CreateThreadCollectives(ranks, 60'000);
  std::vector<absl::StatusOr<ReplayResult>> results(devices.size(), absl::UnknownError("not run"));
  std::vector<std::thread> running;
  for (int r = 0; r < ranks; ++r) {
    running.emplace_back([&, r] { results[r] = RunRank(plan, *group[r], *devices[r]); });
  }
  for (std::thread& t : running) t.join();
  for (int r = 1; r < ranks; ++r) {
    const bool same = results[r].ok()
                          ? results[0].ok() && BytesOf(*results[r]) == BytesOf(*results[0])
                          : results[r].status() == results[0].status();
    if (!same) {
      return absl::InternalError("rank " + std::to_string(r) + ": " +
                                 results[r].status().ToString() +
                                 "; rank 0: " + results[0].status().ToString());
    }
  }
  return results[0];
}

std::string CheckCase(const Json& test_case, const absl::StatusOr<ReplayResult>& result,
                      double* worst) {
  if (test_case.at("outcome") == "refuse") return CheckRefusal(test_case, result.status());
  if (!result.ok()) return result.status().ToString();
  const ReplayRows& rows = result->rows[0][0];
  const std::string ints = CheckMetricInts(test_case, rows);
  if (!ints.empty()) return ints;
  const bool exact = test_case.at("kind") == "logits" || test_case.value("dot", "") == "exact";
  return exact ? CheckClosely(test_case, rows, worst) : CheckLoosely(test_case, rows);
}

CaseCounts CheckAllCases(const std::vector<ReplayDevice*>& devices) {
  CaseCounts out;
  for (const Json& c : MetricCases()) {
    const std::string name = c.at("name").get<std::string>();
    const bool exact = !c.contains("policy") || c.at("policy") == "exact";
    const bool beyond = name == "subnormal-hidden" || name == "overflow-fp32";
    const auto result = RunOnDevices(
        PlanOfCase(c, exact ? ReplayPolicy::kExact : ReplayPolicy::kFp64Audit), devices);
    if (beyond || !exact) {
      ++out.named;
      if (ReasonOf(result.status()) != "BACKEND_UNAVAILABLE") {
        out.failures.push_back(name + ": not refused by name: " + result.status().ToString());
      }
      continue;
    }
    ++(c.at("outcome") == "refuse" ? out.refusals : out.answers);
    const std::string wrong = CheckCase(c, result, &out.worst);
    if (!wrong.empty()) out.failures.push_back(name + ": " + wrong);
  }
  return out;
}

}  // namespace assay
