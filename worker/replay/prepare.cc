#include "worker/replay/prepare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/agree.h"
#include "worker/replay/refusal.h"
#include "worker/replay/rows.h"

namespace assay {
namespace {

// First non-finite element of an operand, if any.
struct BadHidden {
  int64_t context = -1, position = -1, column = -1;
};

struct OperandScan {
  double max_abs = 0;
  BadHidden bad;
};

constexpr uint64_t kScanBytes = 512 << 10;  // a thread's piece of a block

// The scan of a block, shared out by rows; a mapped file is read by whoever scans it.
ScanResult ScanBlock(const RowBlock& block, ThreadPool& pool) {
  const uint64_t row_bytes = block.bytes.size() / std::max<uint64_t>(1, block.rows);
  const uint64_t step = std::max<uint64_t>(1, kScanBytes / std::max<uint64_t>(1, row_bytes));
  std::vector<ScanResult> parts((block.rows + step - 1) / step);
  pool.Run(static_cast<int64_t>(parts.size()), [&](int64_t i, int) {
    const uint64_t first = static_cast<uint64_t>(i) * step;
    RowBlock part = block;
    part.rows = std::min(step, block.rows - first);
    part.bytes = block.bytes.subspan(first * row_bytes, part.rows * row_bytes);
    parts[i] = ScanHidden(part);
  });
  ScanResult out;
  for (size_t i = 0; i < parts.size(); ++i) {
    out.max_abs = std::max(out.max_abs, parts[i].max_abs);
    if (out.non_finite >= 0 || parts[i].non_finite < 0) continue;
    out.non_finite = static_cast<int64_t>(i * step * block.width) + parts[i].non_finite;
  }
  return out;
}

absl::StatusOr<OperandScan> ScanOperand(const Job& job, size_t operand, ThreadPool& pool) {
  OperandScan out;
  for (size_t c = 0; c < job.plan->contexts.size(); ++c) {
    ASSAY_ASSIGN_OR_RETURN(const RowBlock block, FetchRows(job, operand, c));
    const ScanResult scan = ScanBlock(block, pool);
    out.max_abs = std::max(out.max_abs, scan.max_abs);
    if (scan.non_finite >= 0 && out.bad.context < 0) {
      const auto width = static_cast<int64_t>(block.width);
      out.bad = {job.plan->contexts[c].index, scan.non_finite / width, scan.non_finite % width};
    }
  }
  return out;
}

// What ranks tell each other about a head.
struct HeadScan {
  double max_abs = 0;
  int64_t bad_row = -1;  // vocabulary id
};

absl::StatusOr<std::vector<HeadScan>> ExchangeHeadScans(
    const Job& job, const std::vector<std::shared_ptr<HeadSlice>>& heads, Collective& collective) {
  std::vector<HeadScan> own(heads.size());
  for (size_t h = 0; h < heads.size(); ++h) {
    if (heads[h] == nullptr) continue;
    own[h].max_abs = heads[h]->scan.max_abs;
    if (heads[h]->scan.non_finite >= 0) {
      own[h].bad_row = static_cast<int64_t>(job.own_begin) +
                       heads[h]->scan.non_finite / static_cast<int64_t>(job.plan->heads[h].hidden);
    }
  }
  if (own.empty()) return own;
  std::vector<HeadScan> all(own.size() * static_cast<size_t>(collective.size()));
  ASSAY_RETURN_IF_ERROR(collective.AllGather(
      {reinterpret_cast<const uint8_t*>(own.data()), own.size() * sizeof(HeadScan)},
      {reinterpret_cast<uint8_t*>(all.data()), all.size() * sizeof(HeadScan)}));
  // Ranks own ascending columns, so the first rank that has a bad row has the lowest.
  for (size_t h = 0; h < own.size(); ++h) {
    own[h] = all[h];
    for (size_t r = 1; r < all.size() / own.size(); ++r) {
      const HeadScan& theirs = all[r * own.size() + h];
      own[h].max_abs = std::max(own[h].max_abs, theirs.max_abs);
      if (own[h].bad_row < 0) own[h].bad_row = theirs.bad_row;
    }
  }
  return own;
}

// Lowest column of a bias that is NaN or infinite; -1 for none.
int64_t FirstNonFinite(const std::vector<float>& bias, uint64_t columns) {
  for (size_t v = 0; v < bias.size() && v < columns; ++v) {
    if (!std::isfinite(bias[v])) return static_cast<int64_t>(v);
  }
  return -1;
}

// By comparison: reference rows, reference head, candidate rows, candidate head.
absl::Status RefuseNonFinite(const Job& job, const std::vector<OperandScan>& operands,
                             const std::vector<HeadScan>& heads) {
  for (const Comparison& c : job.comparisons) {
    for (const size_t s : {c.ref, c.cand}) {
      const Source& source = job.sources[s];
      if (!source.head) continue;
      ReplayRefusal refusal;
      refusal.reason = std::string(kNonFiniteInput);
      refusal.operand = job.plan->operands[source.operand].id;
      const BadHidden& bad = operands[source.operand].bad;
      if (bad.context >= 0) {
        refusal.context = bad.context;
        refusal.position = bad.position;
        refusal.column = bad.column;
        return Refuse(refusal, "the hidden state is not finite (column counts its elements)");
      }
      if (heads[*source.head].bad_row >= 0) {
        refusal.column = heads[*source.head].bad_row;
        return Refuse(refusal, "head \"" + job.plan->heads[*source.head].id +
                                   "\" is not finite in the row of this column");
      }
      if (const int64_t bad = FirstNonFinite(job.plan->heads[*source.head].bias, job.columns);
          bad >= 0) {
        refusal.column = bad;
        return Refuse(refusal, "the bias of head \"" + job.plan->heads[*source.head].id +
                                   "\" is not finite in this column");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ReplayBackend> DecideBackend(const Job& job, bool within_bound) {
  ReplayBackend wanted = job.plan->backend;
  if (const char* forced = std::getenv("ASSAY_REPLAY_BACKEND");
      forced != nullptr && *forced != '\0' && wanted == ReplayBackend::kAuto) {
    ASSAY_ASSIGN_OR_RETURN(wanted, ParseReplayBackend(forced));
  }
  if (wanted == ReplayBackend::kAuto) {
    return HasAvx512Bf16() && within_bound ? ReplayBackend::kCpuBf16 : ReplayBackend::kCpuF32;
  }
  if (wanted == ReplayBackend::kCpuBf16 && !HasAvx512Bf16()) {
    return PreconditionError("BACKEND_UNAVAILABLE",
                             "backend cpu-bf16 needs AVX512-BF16, which this CPU or oneDNN's "
                             "instruction-set limit lacks; use cpu-f32");
  }
  if (wanted == ReplayBackend::kCudaBf16 && job.plan->policy != ReplayPolicy::kExact) {
    return PreconditionError("BACKEND_UNAVAILABLE",
                             "backend cuda-bf16 computes policy exact only; use cpu-bf16 or "
                             "cpu-f32 for " +
                                 std::string(ReplayPolicyName(job.plan->policy)));
  }
  if (wanted == ReplayBackend::kCudaBf16 && !within_bound) {
    return PreconditionError("BACKEND_UNAVAILABLE",
                             "a hidden state or head element reaches 2^60, where backends that "
                             "multiply bf16 may differ; use cpu-f32");
  }
  if (wanted == ReplayBackend::kCpuBf16 && !within_bound) {
    return PreconditionError("BACKEND_UNAVAILABLE",
                             "a hidden state or head element reaches 2^60, where AVX512-BF16's "
                             "flushing of subnormals could be seen; use cpu-f32");
  }
  return wanted;
}

}  // namespace

absl::StatusOr<Prepared> PrepareRun(const Job& job, HeadStore* store, ThreadPool& pool,
                                    Collective& collective) {
  const ReplayPlan& plan = *job.plan;
  Prepared out;
  std::vector<OperandScan> operands(plan.operands.size());
  absl::Status scanned;
  for (size_t o = 0; o < operands.size() && scanned.ok(); ++o) {
    if (plan.operands[o].kind != OperandKind::kHidden) continue;
    absl::StatusOr<OperandScan> scan = ScanOperand(job, o, pool);
    scanned = scan.status();
    if (!scan.ok()) continue;
    operands[o] = *scan;
    out.max_hidden.push_back({plan.operands[o].id, scan->max_abs});
  }
  ASSAY_RETURN_IF_ERROR(Agree(scanned, collective));
  ASSAY_ASSIGN_OR_RETURN(out.heads, store->Scan(job, pool));
  ASSAY_ASSIGN_OR_RETURN(const std::vector<HeadScan> heads,
                         ExchangeHeadScans(job, out.heads, collective));
  ASSAY_RETURN_IF_ERROR(RefuseNonFinite(job, operands, heads));
  bool within_bound = true;
  for (size_t h = 0; h < heads.size(); ++h) {
    out.max_head.push_back({plan.heads[h].id, heads[h].max_abs});
    within_bound = within_bound && heads[h].max_abs < kBf16OperandBound;
  }
  for (const ReplayMaximum& m : out.max_hidden) {
    within_bound = within_bound && m.value < kBf16OperandBound;
  }
  absl::StatusOr<ReplayBackend> backend = DecideBackend(job, within_bound);
  ASSAY_RETURN_IF_ERROR(Agree(backend.status(), collective));
  out.backend = *backend;
  // A device takes heads as they are.
  if (plan.policy != ReplayPolicy::kFp64Audit && out.backend != ReplayBackend::kCudaBf16) {
    ASSAY_RETURN_IF_ERROR(Agree(store->Pack(job, out.backend, pool, &out.heads), collective));
  }
  return out;
}

}  // namespace assay
