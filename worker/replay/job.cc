#include "worker/replay/job.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "storage/base/checked.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/logit_scale.h"

namespace assay {
namespace {

absl::Status Invalid(const std::string& why) {
  return InvalidError("PLAN_INVALID", "replay plan: " + why);
}

template <typename Items>
absl::StatusOr<std::map<std::string, size_t>> IndexById(const Items& items, const char* what) {
  std::map<std::string, size_t> out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!out.emplace(items[i].id, i).second) {
      return Invalid(std::string(what) + " id \"" + items[i].id + "\" occurs twice");
    }
  }
  return out;
}

absl::Status CheckAffine(const ReplayHead& head, const ReplayPlan& plan, const std::string& name) {
  if (!IsLogitScale(head.scale)) {
    return Invalid(name + ": the logit scale (--logit-scale) must be 1e-6 to 1e6");
  }
  if (!head.bias.empty() && head.bias.size() != head.vocab) {
    return Invalid(name + ": the bias has " + std::to_string(head.bias.size()) +
                   " values, the head " + std::to_string(head.vocab) + " rows");
  }
  if (head.affine() && plan.policy == ReplayPolicy::kTorchBf16) {
    return Invalid(name + ": policy torch-bf16 says nothing of a logit scale or bias; use exact");
  }
  return absl::OkStatus();
}

absl::Status CheckHead(const ReplayHead& head, const ReplayPlan& plan) {
  const std::string name = "head \"" + head.id + "\"";
  ASSAY_RETURN_IF_ERROR(CheckAffine(head, plan, name));
  if (head.vocab == 0 || head.vocab > kVocabMax || head.hidden == 0 || head.hidden > kHiddenMax) {
    return Invalid(name + ": shape [" + std::to_string(head.vocab) + ", " +
                   std::to_string(head.hidden) + "] is out of range");
  }
  if (head.bytes.size() != head.vocab * head.hidden * 2) {
    return Invalid(name + " has " + std::to_string(head.bytes.size()) + " bytes, its shape needs " +
                   std::to_string(head.vocab * head.hidden * 2));
  }
  if (plan.valid_vocab && *plan.valid_vocab > head.vocab) {
    return Invalid("valid_vocab " + std::to_string(*plan.valid_vocab) + " exceeds the " +
                   std::to_string(head.vocab) + " rows of " + name);
  }
  if (!plan.valid_vocab && head.vocab != plan.heads[0].vocab) {
    return Invalid(name + " has " + std::to_string(head.vocab) + " rows, head \"" +
                   plan.heads[0].id + "\" has " + std::to_string(plan.heads[0].vocab) +
                   "; set valid_vocab to the columns that both mean");
  }
  return absl::OkStatus();
}

absl::Status CheckScalars(const ReplayPlan& plan) {
  if (plan.softcap && !(*plan.softcap > 0 && std::isfinite(*plan.softcap))) {
    return Invalid("softcap must be positive and finite");
  }
  if (plan.valid_vocab && (*plan.valid_vocab == 0 || *plan.valid_vocab > kVocabMax)) {
    return Invalid("valid_vocab " + std::to_string(*plan.valid_vocab) + " is out of range");
  }
  if (plan.vocab_chunk && (*plan.vocab_chunk < kVocabChunkMin || plan.softcap ||
                           plan.policy != ReplayPolicy::kTorchBf16)) {
    return Invalid("vocab_chunk needs policy torch-bf16 without softcap and at least " +
                   std::to_string(kVocabChunkMin) + " columns");
  }
  if (plan.comparisons.empty() || plan.comparisons.size() > kComparisonsMax) {
    return Invalid("there must be 1 to " + std::to_string(kComparisonsMax) + " comparisons");
  }
  for (const ReplayOperand& operand : plan.operands) {
    if (!operand.rows) return Invalid("operand \"" + operand.id + "\" has no row provider");
  }
  for (const ReplayContext& context : plan.contexts) {
    if (context.observed.empty()) {
      return Invalid("context " + std::to_string(context.index) + " has no rows");
    }
  }
  return absl::OkStatus();
}

// Distinct sources in order of first use.
class SourceTable {
 public:
  SourceTable(const ReplayPlan& plan, std::map<std::string, size_t> operands,
              std::map<std::string, size_t> heads)
      : plan_(plan), operands_(std::move(operands)), heads_(std::move(heads)) {}

  absl::StatusOr<size_t> Of(const ReplaySide& side, const std::string& comparison) {
    const auto operand = operands_.find(side.operand);
    if (operand == operands_.end()) {
      return Invalid("comparison \"" + comparison + "\" names no operand \"" + side.operand + "\"");
    }
    Source source{operand->second, std::nullopt};
    if (plan_.operands[source.operand].kind == OperandKind::kHidden) {
      const auto head = heads_.find(side.head);
      if (head == heads_.end()) {
        return Invalid("comparison \"" + comparison + "\" names no head \"" + side.head + "\"");
      }
      source.head = head->second;
    }
    const auto key = std::make_pair(source.operand, source.head);
    const auto [at, fresh] = seen_.emplace(key, sources_.size());
    if (fresh) sources_.push_back(source);
    return at->second;
  }

  std::vector<Source> Take() { return std::move(sources_); }

 private:
  const ReplayPlan& plan_;
  const std::map<std::string, size_t> operands_, heads_;
  std::map<std::pair<size_t, std::optional<size_t>>, size_t> seen_;
  std::vector<Source> sources_;
};

// Without heads or valid_vocab the vocabulary is the width of the first logits operand.
absl::StatusOr<uint64_t> ColumnsOf(const ReplayPlan& plan, const std::vector<Source>& sources) {
  if (plan.valid_vocab) return *plan.valid_vocab;
  if (!plan.heads.empty()) return plan.heads[0].vocab;
  if (plan.contexts.empty()) return Invalid("no heads, no contexts and no valid_vocab");
  ASSAY_ASSIGN_OR_RETURN(const RowBlock block, plan.operands[sources[0].operand].rows(0));
  if (block.width == 0 || block.width > kVocabMax) {
    return Invalid("logits of width " + std::to_string(block.width) + " are out of range");
  }
  return block.width;
}

}  // namespace

absl::StatusOr<Job> ResolveJob(const ReplayPlan& plan, int rank, int size) {
  ASSAY_RETURN_IF_ERROR(CheckScalars(plan));
  for (const ReplayHead& head : plan.heads) ASSAY_RETURN_IF_ERROR(CheckHead(head, plan));
  ASSAY_ASSIGN_OR_RETURN(auto operands, IndexById(plan.operands, "operand"));
  ASSAY_ASSIGN_OR_RETURN(auto heads, IndexById(plan.heads, "head"));
  ASSAY_ASSIGN_OR_RETURN(const auto ids, IndexById(plan.comparisons, "comparison"));
  Job job;
  job.plan = &plan;
  SourceTable table(plan, std::move(operands), std::move(heads));
  for (const ReplayComparison& c : plan.comparisons) {
    Comparison out;
    ASSAY_ASSIGN_OR_RETURN(out.ref, table.Of(c.ref, c.id));
    ASSAY_ASSIGN_OR_RETURN(out.cand, table.Of(c.cand, c.id));
    job.comparisons.push_back(out);
  }
  job.sources = table.Take();
  job.wide = plan.policy == ReplayPolicy::kFp64Audit;
  for (const Source& source : job.sources) {
    job.wide = job.wide || (source.head && plan.heads[*source.head].affine());
  }
  ASSAY_ASSIGN_OR_RETURN(job.columns, ColumnsOf(plan, job.sources));
  job.leaves =
      plan.vocab_chunk ? CutLeavesInChunks(job.columns, *plan.vocab_chunk) : CutLeaves(job.columns);
  for (int r = 0; r < size; ++r) job.ranges.push_back(LeavesOfRank(job.leaves.size(), r, size));
  job.own = job.ranges[rank];
  if (job.own.count() > 0) {
    job.own_begin = job.leaves[job.own.first].begin;
    job.own_end = job.leaves[job.own.last - 1].end;
  }
  for (const ReplayContext& context : plan.contexts) job.total_rows += context.observed.size();
  return job;
}

}  // namespace assay
