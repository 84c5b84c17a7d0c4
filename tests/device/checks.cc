#include "tests/device/checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "storage/base/bf16.h"
#include "storage/base/status.h"
#include "worker/replay/cuda/case_check.h"
#include "worker/replay/cuda/device_run.h"
#include "worker/replay/cuda/host_pass.h"
#include "worker/replay/cuda/plugin.h"
#include "worker/replay/replay_test_util.h"

namespace assay {
namespace {

struct Devices {
  explicit Devices(int count) {
    for (int r = 0; r < count; ++r) {
      auto device = cuda::OpenCudaDevice(r);
      if (!device.ok()) {
        error = device.status().ToString();
        return;
      }
      own.push_back(std::move(*device));
      pointers.push_back(own.back().get());
    }
  }
  std::vector<std::unique_ptr<ReplayDevice>> own;
  std::vector<ReplayDevice*> pointers;
  std::string error;
};

Json Result(const std::vector<std::string>& failures) {
  return {{"passed", failures.empty()}, {"failures", failures}};
}

std::string Sentence(const std::string& what, const absl::Status& status) {
  return what + ": " + status.ToString();
}

// Every byte of both passes, from the device's own products.
void ComparePasses(const ReplayPlan& plan, ReplayDevice& device,
                   std::vector<std::string>* failures) {
  const Job job = ResolveJob(plan, 0, 1).value();
  const auto& observed = plan.contexts[0].observed;
  const uint64_t rows = observed.size();
  std::vector<SideLeaf> sides;
  std::vector<PairLeaf> pairs;
  std::vector<std::vector<float>> products(job.sources.size());
  const std::vector<PairRow> pair_rows(rows * job.comparisons.size(), {2, 1, 3, 4, 0.25, 17});
  const auto run = [&]() -> absl::Status {
    absl::Status status = device.Begin(job, rows);
    for (size_t o = 0; o < plan.operands.size() && status.ok(); ++o) {
      const auto block = plan.operands[o].rows(0);
      std::memcpy(device.Staging(0, o), block->bytes.data(), block->bytes.size());
    }
    if (status.ok()) status = device.StartFirst(0, observed);
    if (status.ok()) status = device.FinishFirst(0, &sides);
    for (size_t s = 0; s < products.size() && status.ok(); ++s) {
      status = device.ReadProducts(0, s, &products[s]);
    }
    if (status.ok()) status = device.StartSecond(0, pair_rows);
    if (status.ok()) status = device.FinishSecond(0, &pairs);
    return status;
  };
  if (const absl::Status status = run(); !status.ok()) {
    failures->push_back(Sentence("passes", status));
    return;
  }
  const auto rule_of = [&](size_t s, const Leaf& leaf) {
    const ReplayHead& head = plan.heads[*job.sources[s].head];
    return cuda::LogitRule{job.softcap(), head.scale,
                           head.bias.empty() ? nullptr : head.bias.data() + leaf.begin};
  };
  const auto at = [&](size_t s, uint64_t row, const Leaf& leaf) {
    return products[s].data() + row * job.columns + leaf.begin;
  };
  size_t wrong = 0, i = 0;
  for (size_t s = 0; s < job.sources.size(); ++s) {
    for (uint64_t row = 0; row < rows; ++row) {
      for (const Leaf& leaf : job.leaves) {
        const SideLeaf want =
            cuda::HostSide(at(s, row, leaf), static_cast<int>(leaf.columns()), rule_of(s, leaf),
                           observed[row] - static_cast<int64_t>(leaf.begin));
        wrong += std::memcmp(&want, &sides[i++], sizeof want) != 0 ? 1 : 0;
      }
    }
  }
  if (wrong > 0)
    failures->push_back(std::to_string(wrong) + " first-pass partials differ from the host's");
  wrong = i = 0;
  for (size_t c = 0; c < job.comparisons.size(); ++c) {
    for (uint64_t row = 0; row < rows; ++row) {
      for (const Leaf& leaf : job.leaves) {
        PairRow values = pair_rows[c * rows + row];
        values.threshold_column -= static_cast<int64_t>(leaf.begin);
        const auto [ref, cand] = job.comparisons[c];
        const PairLeaf want = cuda::HostPair(at(ref, row, leaf), at(cand, row, leaf),
                                             static_cast<int>(leaf.columns()), rule_of(ref, leaf),
                                             rule_of(cand, leaf), values);
        wrong += std::memcmp(&want, &pairs[i++], sizeof want) != 0 ? 1 : 0;
      }
    }
  }
  if (wrong > 0)
    failures->push_back(std::to_string(wrong) + " second-pass partials differ from the host's");
}

// Largest difference of the products from fp64 sums, relative to the sum of |h w|: fp32 sums stay
// below K 2^-24 of it.
double ProductError(const ReplayPlan& plan, ReplayDevice& device, std::string* error) {
  const Job job = ResolveJob(plan, 0, 1).value();
  const auto block = plan.operands[0].rows(0).value();
  std::vector<SideLeaf> unused;
  std::vector<float> products;
  absl::Status status = device.Begin(job, block.rows);
  if (status.ok()) {
    std::memcpy(device.Staging(0, 0), block.bytes.data(), block.bytes.size());
    status = device.StartFirst(0, plan.contexts[0].observed);
  }
  if (status.ok()) status = device.FinishFirst(0, &unused);
  if (status.ok()) status = device.ReadProducts(0, 0, &products);
  if (!status.ok()) {
    *error = status.ToString();
    return 0;
  }
  const ReplayHead& head = plan.heads[0];
  const auto value = [](const uint8_t* from, uint64_t i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, 2);
    return static_cast<double>(Bf16ToFloat(bits));
  };
  double worst = 0;
  for (uint64_t row = 0; row < block.rows; ++row) {
    for (uint64_t v = row % 7; v < head.vocab; v += 7) {
      double sum = 0, size = 0;
      for (uint64_t k = 0; k < head.hidden; ++k) {
        const double term = value(block.bytes.data(), row * head.hidden + k) *
                            value(head.bytes.data(), v * head.hidden + k);
        sum += term;
        size += std::fabs(term);
      }
      worst = std::max(worst, std::fabs(products[row * head.vocab + v] - sum) / size);
    }
  }
  return worst;
}

// The problem of the invariance checks: a softcap, a head with scale and bias, contexts of odd
// sizes.
std::unique_ptr<Problem> InvarianceProblem() {
  auto problem = MakeProblem({33'003, 200, {300, 1, 97}, 2, true}, 5);
  problem->plan.softcap = 20.0;
  problem->plan.heads[1].scale = 0.75;
  problem->plan.heads[1].bias.assign(33'003, 0.125f);
  problem->plan.row_tile = 0;
  return problem;
}

void CompareUnits(const ReplayPlan& plan, const ReplayResult& whole, const Devices& devices,
                  std::vector<std::string>* failures) {
  for (size_t unit = 0; unit < plan.contexts.size(); ++unit) {
    ReplayPlan alone = plan;
    alone.contexts = {plan.contexts[unit]};
    for (ReplayOperand& operand : alone.operands) {
      operand.rows = [rows = operand.rows, unit](size_t) { return rows(unit); };
    }
    const auto result = RunOnDevices(alone, devices.pointers);
    if (!result.ok()) {
      failures->push_back(Sentence("a unit of one context", result.status()));
      continue;
    }
    ReplayResult part = whole;
    for (auto& comparison : part.rows) comparison = {comparison[unit]};
    if (BytesOf(*result) != BytesOf(part)) {
      failures->push_back("context " + std::to_string(unit) + " alone has other bits");
    }
  }
}

}  // namespace

Json RunSelfTestOnDevice(ReplayDevice& device) {
  const auto digest = RunDeviceSelfTest(device);
  Json out = Result(digest.ok() ? std::vector<std::string>{}
                                : std::vector<std::string>{digest.status().ToString()});
  if (digest.ok()) out["sha256"] = *digest;
  return out;
}

Json CheckGolden() {
  std::vector<std::string> failures;
  Json out;
  for (const int ranks : {1, 4}) {
    Devices devices(ranks);
    if (!devices.error.empty()) return Result({devices.error});
    const CaseCounts counts = CheckAllCases(devices.pointers);
    failures.insert(failures.end(), counts.failures.begin(), counts.failures.end());
    out[std::to_string(ranks) + "_ranks"] = {{"answers", counts.answers},
                                             {"refusals", counts.refusals},
                                             {"refused_by_name", counts.named},
                                             {"largest_error", counts.worst}};
    if (counts.answers + counts.refusals + counts.named != 86) {
      failures.push_back("there are not 86 cases");
    }
  }
  out.update(Result(failures));
  return out;
}

Json CheckInvariance() {
  std::vector<std::string> failures;
  const auto problem = InvarianceProblem();
  ReplayPlan plan = problem->plan;
  Devices one(1);
  if (!one.error.empty()) return Result({one.error});
  const auto whole = RunOnDevices(plan, one.pointers);
  if (!whole.ok()) return Result({Sentence("the whole problem", whole.status())});
  int runs = 1;
  for (const int ranks : {1, 2, 4, 8}) {
    Devices devices(ranks);
    if (!devices.error.empty()) return Result({devices.error});
    for (const uint64_t tile : {1, 2, 4, 0}) {
      plan.row_tile = tile;
      const auto cut = RunOnDevices(plan, devices.pointers);
      ++runs;
      if (!cut.ok()) {
        failures.push_back(Sentence("cut", cut.status()));
      } else if (BytesOf(*cut) != BytesOf(*whole)) {
        failures.push_back(std::to_string(ranks) + " ranks with row tile " + std::to_string(tile) +
                           " give other bits");
      }
    }
  }
  CompareUnits(problem->plan, *whole, one, &failures);
  ReplayPlan first = problem->plan;
  first.contexts.resize(1);
  ComparePasses(first, *one.pointers[0], &failures);
  first.softcap.reset();
  ComparePasses(first, *one.pointers[0], &failures);
  std::string error;
  const auto wide = MakeProblem({1'001, 5'120, {8}, 1, false}, 6);
  const double product_error = ProductError(wide->plan, *one.pointers[0], &error);
  if (!error.empty()) failures.push_back(error);
  if (!(product_error <= 5'120 * 0x1p-24)) failures.push_back("products are not fp32 sums");
  Json out = Result(failures);
  out["runs"] = runs;
  out["largest_product_error"] = product_error;
  return out;
}

Json CheckRefusals() {
  std::vector<std::string> failures;
  Devices one(1);
  if (!one.error.empty()) return Result({one.error});
  const auto problem = MakeProblem({100, 16, {2}, 1, false}, 5);
  const auto expect = [&](const ReplayPlan& plan, std::string_view reason) {
    const auto result = RunOnDevices(plan, one.pointers);
    if (ReasonOf(result.status()) == reason) return;
    failures.push_back("expected " + std::string(reason) + ", got " + result.status().ToString());
  };
  for (const ReplayPolicy policy : {ReplayPolicy::kFp64Audit, ReplayPolicy::kTorchBf16}) {
    ReplayPlan plan = problem->plan;
    plan.policy = policy;
    expect(plan, "BACKEND_UNAVAILABLE");
  }
  auto broken = MakeProblem({100, 16, {2}, 1, false}, 5);
  broken->operands[1][0][3] = 0x7fc0;  // NaN
  expect(broken->plan, "NON_FINITE_INPUT");
  broken = MakeProblem({100, 16, {2}, 1, false}, 5);
  broken->heads[0][16 * 40] = 0x7f80;  // +inf
  expect(broken->plan, "NON_FINITE_INPUT");
  broken = MakeProblem({100, 16, {2}, 1, false}, 5);
  broken->plan.contexts[0].observed[1] = 100;
  expect(broken->plan, "TOKEN_OUT_OF_RANGE");
  return Result(failures);
}

}  // namespace assay
