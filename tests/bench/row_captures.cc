// A replay of captures that lie on disk, through the head of a model, as `assay replay` makes it.

#include <cstdlib>
#include <utility>

#include "storage/base/files.h"
#include "storage/format/capture.h"
#include "storage/format/head.h"
#include "storage/format/safetensors.h"
#include "storage/format/suite.h"
#include "tests/bench/replay_rows.h"
#include "tests/bench/replay_runs.h"
#include "worker/group/offline.h"
#include "worker/group/offline_heads.h"

namespace assay::bench {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status().ToString());
  return std::move(*value);
}

// Rows as a rank reads them: the file is opened again for every request.
absl::StatusOr<RowBlock> OpenRows(const std::string& path) {
  auto file = Must(SafetensorsFile::Open(path));
  const TensorView view = Must(file->Find(kHiddenTensorName));
  const RowType type = view.dtype == DType::kF32 ? RowType::kF32 : RowType::kBf16;
  return RowBlock{view.bytes, type, view.shape[0], view.shape[1], std::move(file)};
}

ReplayOperand OperandOf(const std::string& id, const CaptureDir& capture) {
  std::vector<std::string> paths;
  for (const auto& [index, path] : capture.files) paths.push_back(path);
  return {id, OperandKind::kHidden, [paths](size_t i) { return OpenRows(paths.at(i)); }};
}

ReplayPlan PlanOf(const Flags& flags, const TensorView& head, const std::string& digest) {
  const Suite suite = Must(ReadSuite(flags.at("--suite")));
  const std::string& filter = flags.at("--filter");
  const CaptureDir ref = Must(OpenCapture(flags.at("--reference"), suite, filter, false));
  const CaptureDir cand = Must(OpenCapture(flags.at("--candidate"), suite, filter, false));
  ReplayPlan plan;
  for (const SuiteContext& context : suite.contexts) {
    if (!ref.files.contains(context.index)) continue;
    plan.contexts.push_back(
        {context.index, {context.tokens.begin() + 1, context.tokens.end()}});  // row r: token r + 1
  }
  plan.heads.push_back({});
  plan.heads[0].id = "h";
  plan.heads[0].bytes = head.bytes;
  plan.heads[0].vocab = head.shape[0];
  plan.heads[0].hidden = head.shape[1];
  plan.heads[0].cache_key = digest;
  plan.operands = {OperandOf("ref", ref), OperandOf("cand", cand)};
  plan.comparisons = {{"c", {"ref", "h"}, {"cand", "h"}}};
  return plan;
}

}  // namespace

Json CapturesRow(const Flags& flags) {
  std::string folder = "/tmp/assay_bench_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) Die("cannot make a folder in /tmp");
  const int threads = static_cast<int>(Number(flags, "--threads"));
  OfflineHead head;
  {
    OfflineRanks ranks;
    ranks.threads = threads;
    const OfflineHooks hooks;
    const auto group = Must(StartOfflineGroup(ranks, /*capture=*/false, folder, hooks));
    const GroupSource source = [&]() -> absl::StatusOr<Group*> { return group.get(); };
    head = Must(PrepareHead({flags.at("--head"), "none", std::nullopt}, source, folder));
  }
  const auto file = Must(SafetensorsFile::Open(head.file));
  const ReplayPlan plan =
      PlanOf(flags, Must(FindHeadTensor(*file, head.tensor)), head.identity.rounded_sha256);
  auto single = CreateCollective({}).value();
  WholeReplay whole(plan, threads, *single);
  ProductsAlone products(plan, threads);
  whole.Run();
  products.Run();
  Samples whole_time, products_time;
  for (uint64_t r = 0; r < Number(flags, "--repeats"); ++r) {
    TakeInTurn(
        &whole_time, [&] { whole.Run(); }, &products_time, [&] { products.Run(); });
  }
  RemoveTree(folder).IgnoreError();
  uint64_t positions = 0;
  for (const ReplayContext& context : plan.contexts) positions += context.observed.size();
  // Four exps and a logarithm for each column and position, as in ProductsRow.
  const BareCost bare = MeasureBareCalls(100);
  const double calls =
      (4 * bare.exp + bare.log) * 1e-9 * static_cast<double>(positions * plan.heads[0].vocab);
  return {{"ratio", Ratio(whole_time, products_time)},
          {"floor", 1 + calls / MedianOf(products_time.processors())},
          {"contexts", plan.contexts.size()},
          {"positions", positions},
          {"replay", whole_time.ToJson()},
          {"products", products_time.ToJson()}};
}

}  // namespace assay::bench
