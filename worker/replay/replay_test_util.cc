#include "worker/replay/replay_test_util.h"

#include <cstdlib>
#include <cstring>
#include <thread>

#include "gtest/gtest.h"
#include "storage/base/bf16.h"
#include "storage/base/files.h"

namespace assay {
namespace {

std::string SourceFolder() {
  const char* folder = std::getenv("ASSAY_SOURCE_DIR");
  return folder != nullptr ? folder : ".";
}

RowProvider Fixed(const RowBlock& block) {
  return [block](size_t) -> absl::StatusOr<RowBlock> { return block; };
}

RowBlock BlockOf(const TensorView& t) {
  RowBlock block;
  block.bytes = t.bytes;
  block.type = t.dtype == DType::kBF16 ? RowType::kBf16 : RowType::kF32;
  block.rows = t.shape.at(0);
  block.width = t.shape.at(1);
  return block;
}

ReplayHead HeadOf(const std::string& id, const TensorView& t, uint64_t rows) {
  ReplayHead head;
  head.id = id;
  head.vocab = rows == 0 ? t.shape.at(0) : std::min(rows, t.shape.at(0));
  head.hidden = t.shape.at(1);
  head.bytes = t.bytes.first(head.vocab * head.hidden * 2);
  return head;
}

// Roughly normal values, from a generator that is the same everywhere.
std::vector<uint16_t> MakeBf16(uint64_t count, uint64_t seed, float scale) {
  std::vector<uint16_t> out(count);
  uint64_t state = seed * 2 + 1;
  for (uint16_t& value : out) {
    float sum = 0;
    for (int i = 0; i < 4; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<float>(state >> 40) * 0x1p-24f - 0.5f;
    }
    value = FloatToBf16(sum * scale);
  }
  return out;
}

// `base` with noise, so that a candidate resembles the reference.
std::vector<uint16_t> Disturb(const std::vector<uint16_t>& base, uint64_t seed, float scale) {
  std::vector<uint16_t> out = MakeBf16(base.size(), seed, scale);
  for (size_t i = 0; i < base.size(); ++i) {
    out[i] = FloatToBf16(Bf16ToFloat(base[i]) + Bf16ToFloat(out[i]));
  }
  return out;
}

// (Not operator+: g++ 12 warns about it wrongly.)
std::string Numbered(const char* stem, size_t i) {
  return std::string(stem).append(std::to_string(i));
}

std::span<const uint8_t> BytesOfRows(const std::vector<uint16_t>& rows) {
  return {reinterpret_cast<const uint8_t*>(rows.data()), rows.size() * 2};
}

}  // namespace

std::string MetricFolder() {
  const std::string folder = SourceFolder() + "/tests/data/metric";
  return FileExists(folder + "/index.json") ? folder : "";
}

TensorView MetricTensor(const std::string& reference) {
  static auto* const files = new std::map<std::string, std::shared_ptr<const SafetensorsFile>>;
  const size_t hash = reference.find('#');
  const std::string path = MetricFolder() + "/" + reference.substr(0, hash);
  std::shared_ptr<const SafetensorsFile>& file = (*files)[path];
  if (file == nullptr) file = SafetensorsFile::Open(path).value();
  return file->Find(reference.substr(hash + 1)).value();
}

const Json& MetricCases() {
  static const Json* const cases =
      new Json(ReadJsonFile(MetricFolder() + "/index.json").value().at("cases"));
  return *cases;
}

ReplayPlan PlanOfCase(const Json& test_case, ReplayPolicy policy) {
  ReplayPlan plan;
  plan.policy = policy;
  const bool hidden = test_case.at("kind") == "hidden";
  for (const char* side : {"ref", "cand"}) {
    const TensorView t = MetricTensor(test_case.at(side).get<std::string>());
    plan.operands.push_back(
        {side, hidden ? OperandKind::kHidden : OperandKind::kLogits, Fixed(BlockOf(t))});
  }
  if (hidden) {
    const uint64_t rows = test_case.value("head_rows", uint64_t{0});
    plan.heads.push_back(HeadOf("h0", MetricTensor(test_case.at("head").get<std::string>()), rows));
    if (test_case.contains("cand_head")) {
      plan.heads.push_back(
          HeadOf("h1", MetricTensor(test_case.at("cand_head").get<std::string>()), rows));
    }
  }
  ReplayContext context;
  context.index = 7;
  context.observed = test_case.at("tokens").get<std::vector<int32_t>>();
  plan.contexts.push_back(context);
  plan.comparisons.push_back(
      {"c", {"ref", "h0"}, {"cand", test_case.contains("cand_head") ? "h1" : "h0"}});
  if (test_case.contains("softcap")) plan.softcap = test_case.at("softcap").get<double>();
  if (test_case.contains("valid_vocab"))
    plan.valid_vocab = test_case.at("valid_vocab").get<uint64_t>();
  plan.allow_infinite = test_case.value("allow_infinite", false);
  return plan;
}

std::unique_ptr<Problem> MakeProblem(const ProblemShape& shape, uint64_t seed) {
  auto out = std::make_unique<Problem>();
  ReplayPlan& plan = out->plan;
  out->heads.push_back(MakeBf16(shape.vocab * shape.hidden, seed, 1.0f));
  if (shape.own_head) out->heads.push_back(Disturb(out->heads[0], seed + 1, 0.1f));
  for (size_t h = 0; h < out->heads.size(); ++h) {
    plan.heads.push_back(
        {Numbered("h", h), BytesOfRows(out->heads[h]), shape.vocab, shape.hidden, ""});
  }
  out->operands.resize(1 + shape.candidates);
  for (size_t c = 0; c < shape.rows.size(); ++c) {
    const auto base = MakeBf16(shape.rows[c] * shape.hidden, seed + 100 + c, 1.0f);
    out->operands[0].push_back(base);
    for (int k = 1; k <= shape.candidates; ++k) {
      out->operands[k].push_back(Disturb(base, seed + 1000 * k + c, 0.2f * k));
    }
    ReplayContext context;
    context.index = static_cast<int64_t>(10 + c);
    for (uint64_t r = 0; r < shape.rows[c]; ++r) {
      context.observed.push_back(static_cast<int32_t>((r * 7919 + c * 31) % shape.vocab));
    }
    plan.contexts.push_back(context);
  }
  for (size_t o = 0; o < out->operands.size(); ++o) {
    const auto* rows = &out->operands[o];
    const uint64_t hidden = shape.hidden;
    plan.operands.push_back({Numbered("o", o), OperandKind::kHidden,
                             [rows, hidden](size_t i) -> absl::StatusOr<RowBlock> {
                               const auto& data = rows->at(i);
                               return RowBlock{BytesOfRows(data), RowType::kBf16,
                                               data.size() / hidden, hidden, nullptr};
                             }});
    if (o == 0) continue;
    plan.comparisons.push_back(
        {plan.operands[o].id + "/shared", {"o0", "h0"}, {plan.operands[o].id, "h0"}});
  }
  if (shape.own_head) {
    plan.comparisons.push_back({"own", {"o0", "h0"}, {plan.operands.back().id, "h1"}});
  }
  return out;
}

absl::StatusOr<ReplayResult> RunOnRanks(const ReplayPlan& plan, int ranks, int threads,
                                        std::vector<ReplayCounters>* counters) {
  auto group = CreateThreadCollectives(ranks, 60'000);
  std::vector<absl::StatusOr<ReplayResult>> results(ranks, absl::UnknownError("not run"));
  if (counters != nullptr) counters->assign(ranks, {});
  std::vector<std::thread> running;
  for (int r = 0; r < ranks; ++r) {
    running.emplace_back([&, r] {
      results[r] = RunReplay(plan, *group[r], threads, nullptr,
                             counters == nullptr ? nullptr : &(*counters)[r]);
    });
  }
  for (std::thread& t : running) t.join();
  for (int r = 1; r < ranks; ++r) {
    EXPECT_EQ(results[r].ok(), results[0].ok()) << results[r].status();
    if (results[r].ok() && results[0].ok()) {
      EXPECT_TRUE(BytesOf(*results[r]) == BytesOf(*results[0])) << "rank " << r;
    } else {
      EXPECT_EQ(results[r].status(), results[0].status());
    }
  }
  return results[0];
}

std::string BytesOf(const ReplayResult& result) {
  std::string out;
  for (const auto& comparison : result.rows) {
    for (const ReplayRows& rows : comparison) {
      for (const auto& values : rows.f64) {
        out.append(reinterpret_cast<const char*>(values.data()), values.size() * 8);
      }
      for (const auto& values : rows.i32) {
        out.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
      }
    }
  }
  return out;
}

}  // namespace assay
