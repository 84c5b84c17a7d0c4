// The known answers of tests/data/metric: 70 cases with values (checked with 60 digits), 16
// refusals.

#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "worker/replay/logits.h"
#include "worker/replay/prepare.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

// Largest relative error per setting and field, printed at the end: what docs/metric.md states as
// reached.
std::string setting;

std::map<std::string, double>& Worst() {
  static auto* const worst = new std::map<std::string, double>;
  return *worst;
}

void ExpectClose(const Json& test_case, const std::string& field, const std::vector<double>& got) {
  const auto want = ExpectedOf<double>(test_case, field);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(want[i]) || std::isnan(want[i])) {
      EXPECT_TRUE(got[i] == want[i] || (std::isnan(want[i]) && std::isnan(got[i])))
          << field << " position " << i << ": " << got[i] << " for " << want[i];
      continue;
    }
    const double error = std::fabs(got[i] - want[i]);
    EXPECT_LE(error, 1e-9 + 1e-7 * std::fabs(want[i]))
        << field << " position " << i << ": " << got[i] << " for " << want[i];
    // Relative to at least 1e-6, so that values at the level of rounding do not count.
    double& worst = Worst()[setting + field];
    worst = std::max(worst, error / std::max(std::fabs(want[i]), 1e-6));
  }
}

void ExpectInts(const Json& test_case, const ReplayRows& rows, const std::string& prefix) {
  for (const MetricField& f : kMetricInts) {
    const auto want = ExpectedOf<int64_t>(test_case, prefix + f.fixture);
    EXPECT_EQ(std::vector<int64_t>(rows.i32[f.output].begin(), rows.i32[f.output].end()), want)
        << prefix << f.fixture;
  }
}

void ExpectNonNegative(const ReplayRows& rows) {
  for (int k : {0, 1, 2}) {
    for (const double value : rows.f64[k]) EXPECT_GE(value, 0.0);
  }
  for (size_t i = 0; i < rows.f64[0].size(); ++i) {
    EXPECT_GE(rows.f64[8][i], 0.0);
    EXPECT_LE(rows.f64[8][i], 1.0);
    EXPECT_EQ(rows.i32[4][i] == 0, rows.i32[0][i] == rows.i32[1][i]) << "rank against top-1";
  }
}

bool ExactLogits(const Json& test_case) {
  return test_case.at("kind") == "logits" || test_case.value("dot", "") == "exact";
}

void CheckValues(const Json& test_case, const ReplayRows& rows) {
  ExpectNonNegative(rows);
  ExpectInts(test_case, rows, "");
  for (const MetricField& f : kMetricFloats) ExpectClose(test_case, f.fixture, rows.f64[f.output]);
  if (test_case.value("zero", false)) {
    for (int k : {0, 1, 2}) EXPECT_THAT(rows.f64[k], ::testing::Each(0.0));
  }
}

// fp32 sums move ordinary logits by up to fp32_logit_tol; the fixture says how far KL may follow.
void CheckLoosely(const Json& test_case, const ReplayRows& rows) {
  ExpectNonNegative(rows);
  ExpectInts(test_case, rows, "");
  const auto want = ExpectedOf<double>(test_case, "kl_fwd");
  const auto tolerance = ExpectedOf<double>(test_case, "kl_fwd_fp32_tol");
  const double logit = test_case.at("fp32_logit_tol").get<double>();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_LE(std::fabs(rows.f64[0][i] - want[i]), tolerance[i] + 1e-9) << "position " << i;
  }
  for (const MetricField& f : {MetricField{"nll_ref", 3}, MetricField{"nll_cand", 4}}) {
    const auto nll = ExpectedOf<double>(test_case, f.fixture);
    for (size_t i = 0; i < nll.size(); ++i) {
      EXPECT_LE(std::fabs(rows.f64[f.output][i] - nll[i]), 2 * logit + 1e-9) << f.fixture << i;
    }
  }
}

void CheckRefusal(const Json& test_case, const absl::Status& status) {
  static const std::map<std::string, std::string> kTokens = {
      {"non_finite_hidden", "NON_FINITE_INPUT"},    {"non_finite_head", "NON_FINITE_INPUT"},
      {"non_finite_logit", "NON_FINITE_INPUT"},     {"no_finite_column", "NO_FINITE_COLUMN"},
      {"token_out_of_range", "TOKEN_OUT_OF_RANGE"}, {"infinite_kl", "INFINITE_POSITION"}};
  const Json& want = test_case.at("refusal");
  const std::optional<ReplayRefusal> got = RefusalOf(status);
  ASSERT_TRUE(got.has_value()) << status;
  const auto number = [&](const char* key) -> std::optional<int64_t> {
    return want.at(key).is_null() ? std::nullopt : std::optional(want.at(key).get<int64_t>());
  };
  EXPECT_EQ(got->reason, kTokens.at(want.at("reason").get<std::string>()));
  EXPECT_EQ(ReasonOf(status), got->reason);
  EXPECT_EQ(got->operand,
            want.at("operand").is_null() ? "" : want.at("operand").get<std::string>());
  EXPECT_EQ(got->position, number("position"));
  EXPECT_EQ(got->column, number("column"));
  if (got->position) {
    EXPECT_EQ(got->context, 7);
  }
}

std::string NameOf(const Json& c) { return c.at("name").get<std::string>(); }

// One way to compute: backend, instruction set of the metric's kernels, number of ranks.
struct Way {
  ReplayBackend backend;
  const ReplayKernels* kernels;
  int ranks;
};

std::string WayName(const Way& way) {
  return std::string(way.backend == ReplayBackend::kCpuBf16 ? "CpuBf16" : "CpuF32") + "_" +
         way.kernels->isa + "_Tp" + std::to_string(way.ranks);
}

void PrintTo(const Way& way, std::ostream* out) { *out << WayName(way); }

class KnownAnswers : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    UseKernels(GetParam().kernels);
    setting = std::string(ReplayBackendName(GetParam().backend)) + " ";
  }
  void TearDown() override {
    UseKernels(nullptr);
    setting = "";
  }
};

TEST_P(KnownAnswers, ExactPolicy) {
  ASSERT_NE(MetricFolder(), "");
  const int ranks = GetParam().ranks;
  int answers = 0, refusals = 0;
  for (const Json& c : MetricCases()) {
    if (c.contains("policy") && c.at("policy") != "exact") continue;
    SCOPED_TRACE(NameOf(c));
    ReplayPlan plan = PlanOfCase(c, ReplayPolicy::kExact);
    plan.backend = GetParam().backend;
    auto result = RunOnRanks(plan, ranks, 1);
    if (ReasonOf(result.status()) == "BACKEND_UNAVAILABLE") {
      // Operands beyond 2^60: named, never wrong numbers; auto takes the other backend.
      EXPECT_EQ(plan.backend, ReplayBackend::kCpuBf16);
      EXPECT_THAT(NameOf(c), ::testing::AnyOf("subnormal-hidden", "overflow-fp32"));
      plan.backend = ReplayBackend::kAuto;
      result = RunOnRanks(plan, ranks, 1);
    }
    if (c.at("outcome") == "refuse") {
      ++refusals;
      CheckRefusal(c, result.status());
    } else {
      ++answers;
      ASSERT_TRUE(result.ok()) << result.status();
      const ReplayRows& rows = result->rows[0][0];
      ExactLogits(c) ? CheckValues(c, rows) : CheckLoosely(c, rows);
    }
  }
  EXPECT_EQ(refusals, 16);
  EXPECT_EQ(answers, 69);  // one more is for fp64-audit only
}

std::vector<ReplayBackend> Backends() {
  const auto engine = ReplayEngine::Create(1);
  if (engine.ok() && (*engine)->identity().backend == "cpu-bf16") {
    return {ReplayBackend::kCpuBf16, ReplayBackend::kCpuF32};
  }
  return {ReplayBackend::kCpuF32};
}

std::vector<Way> Ways() {
  int count = 0;
  const ReplayKernels* const* kernels = AllKernels(&count);
  std::vector<Way> out;
  for (const ReplayBackend backend : Backends()) {
    for (int k = 0; k < count; ++k) {
      for (const int ranks : {1, 2, 4}) out.push_back({backend, kernels[k], ranks});
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, KnownAnswers, ::testing::ValuesIn(Ways()),
                         [](const auto& info) { return WayName(info.param); });

// The auto backend leaves cpu-bf16 by itself where subnormals could matter, and then the values are
// right.
TEST(Metric, SubnormalHiddenStatesAreScoredOnCpuF32) {
  for (const Json& c : MetricCases()) {
    if (NameOf(c) != "subnormal-hidden") continue;
    const auto result = RunOnRanks(PlanOfCase(c, ReplayPolicy::kExact), 1, 1);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->backend, ReplayBackend::kCpuF32);
    CheckLoosely(c, result->rows[0][0]);
  }
}

TEST(Metric, Fp64AuditMeetsTheFullToleranceEverywhere) {
  setting = "fp64-audit ";
  int answers = 0;
  for (const Json& c : MetricCases()) {
    if (c.at("outcome") != "ok") continue;
    SCOPED_TRACE(NameOf(c));
    const auto result = RunOnRanks(PlanOfCase(c, ReplayPolicy::kFp64Audit), 1, 2);
    ASSERT_TRUE(result.ok()) << result.status();
    CheckValues(c, result->rows[0][0]);
    ++answers;
  }
  setting = "";
  EXPECT_EQ(answers, 70);
}

TEST(Metric, TorchBf16RoundsLogitsOnce) {
  int answers = 0;
  for (const Json& c : MetricCases()) {
    if (c.at("outcome") != "ok" || c.at("kind") != "hidden" || c.value("dot", "") != "exact")
      continue;
    SCOPED_TRACE(NameOf(c));
    const auto result = RunOnRanks(PlanOfCase(c, ReplayPolicy::kTorchBf16), 1, 1);
    ASSERT_TRUE(result.ok()) << result.status();
    const ReplayRows& rows = result->rows[0][0];
    ExpectInts(c, rows, "bf16.");
    ExpectClose(c, "bf16.kl_fwd", rows.f64[0]);
    ExpectClose(c, "bf16.jsd_bits", rows.f64[2]);
    ++answers;
  }
  EXPECT_GE(answers, 30);
}

// The whole fp32 logit matrix of one source of a plan, row-major.
std::string LogitBytes(const ReplayPlan& plan, size_t source) {
  auto single = CreateCollective({}).value();
  const Job job = ResolveJob(plan, 0, 1).value();
  HeadStore store;
  ThreadPool pool(2);
  const Prepared prepared = PrepareRun(job, &store, pool, *single).value();
  OperandRows rows;
  EXPECT_TRUE(rows.Load(job, 0, prepared.backend).ok());
  Tile tile;
  tile.Reset(job, 0, 0, plan.contexts[0].observed.size());
  std::vector<SideLeaf> unused;
  EXPECT_TRUE(FillTile(rows, prepared.heads, pool, false, &tile, &unused).ok());
  std::string out;
  for (uint64_t row = 0; row < tile.rows(); ++row) {
    for (uint64_t leaf = 0; leaf < job.leaves.size(); ++leaf) {
      out.append(reinterpret_cast<const char*>(tile.Row<float>(source, leaf, row)),
                 job.leaves[leaf].columns() * 4);
    }
  }
  return out;
}

TEST(Metric, ExactLogitsHaveTheKnownBits) {
  int checked = 0;
  for (const Json& c : MetricCases()) {
    if (!c.contains("logits_sha256")) continue;
    SCOPED_TRACE(NameOf(c));
    for (const ReplayBackend backend : Backends()) {
      ReplayPlan plan = PlanOfCase(c, ReplayPolicy::kExact);
      plan.backend = backend;
      const size_t cand = ResolveJob(plan, 0, 1)->comparisons[0].cand;
      EXPECT_EQ(Sha256Hex(LogitBytes(plan, 0)), c.at("logits_sha256").at("ref").get<std::string>());
      EXPECT_EQ(Sha256Hex(LogitBytes(plan, cand)),
                c.at("logits_sha256").at("cand").get<std::string>());
      ++checked;
    }
  }
  EXPECT_GE(checked, 30);
}

TEST(Metric, RefusalsAreTheSameOnEveryRankAndTile) {
  for (const Json& c : MetricCases()) {
    if (c.at("outcome") != "refuse") continue;
    SCOPED_TRACE(NameOf(c));
    for (const uint64_t tile : {1, 2, 0}) {
      ReplayPlan plan = PlanOfCase(c, ReplayPolicy::kExact);
      plan.row_tile = tile;
      CheckRefusal(c, RunOnRanks(plan, 4, 1).status());
    }
  }
}

class PrintWorst : public ::testing::Environment {
 public:
  void TearDown() override {
    for (const auto& [field, error] : Worst()) {
      std::printf("largest error of %-24s %.1e of max(|value|, 1e-6)\n", field.c_str(), error);
    }
  }
};

const auto* const kPrint = ::testing::AddGlobalTestEnvironment(new PrintWorst);

}  // namespace
}  // namespace assay
