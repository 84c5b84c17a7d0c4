#include "worker/group/offline_replay.h"

#include <set>
#include <utility>

#include "storage/base/build_info.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/out_folder.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/operand_info.h"
#include "storage/report/report.h"
#include "worker/group/capture_check.h"
#include "worker/group/replay_inputs.h"
#include "worker/group/replay_run.h"

namespace assay {
namespace {

constexpr char kExecutionSchema[] = "assay-execution/1";

// Asked before any work: sealed results are not overwritten by unsealed ones.
absl::Status CheckOut(const std::string& out) {
  ASSAY_RETURN_IF_ERROR(CheckCanWriteFolder(out));
  if (!IsDirectory(out)) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(out));
  for (const std::string& name : names) {
    const std::string receipt = JoinPath(JoinPath(out, name), kReceiptFile);
    if (!FileExists(receipt)) continue;
    return PreconditionError("OUT_SEALED", receipt + " seals what lies in " + out +
                                               "; choose another --out for unsealed results");
  }
  return absl::OkStatus();
}

NumericInfo Numeric(const OfflineReplayRequest& request, const Group& group, const ReplayRun& run,
                    size_t candidate) {
  NumericInfo out;
  out.policy = request.policy;
  out.backend = run.backend;
  out.kernel_identity = group.identity().at("replay");
  if (run.rounded.count(kReferenceOperand) > 0 ||
      run.rounded.count(CandidateOperand(candidate)) > 0) {
    out.operand_rounding = "bf16-rne";
  }
  out.valid_vocab = request.valid_vocab;
  out.softcap = request.softcap;
  out.allow_infinite = request.allow_infinite;
  out.vocab_chunk = request.vocab_chunk;
  return out;
}

// A report names what was compared: a capture of more contexts is the capture of these.
CaptureManifest Compared(const ReplayInputs& inputs, CaptureManifest manifest) {
  std::set<int64_t> indices;
  for (const size_t at : inputs.selected) indices.insert(inputs.suite.contexts[at].index);
  std::erase_if(manifest.records,
                [&](const CaptureRecord& record) { return !indices.contains(record.index); });
  return manifest;
}

absl::StatusOr<ReportInputs> GatherReport(const OfflineReplayRequest& request, const Group& group,
                                          const ReplayInputs& inputs, const ReplayRun& run,
                                          size_t number) {
  const ReplayCandidate& candidate = inputs.candidates[number];
  ReportInputs out;
  out.suite = {inputs.suite.schema, inputs.suite.suite_token_sha256, inputs.suite.manifest_sha256,
               inputs.filter,       inputs.suite.contexts.size(),    inputs.suite.context_length,
               request.score_from};
  out.suite.limit = inputs.limit;
  out.suite.vocab_size = inputs.suite.vocab_size;
  const std::vector<ContextRows> rows = inputs.rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    const SuiteContext& context = inputs.suite.contexts[inputs.selected[i]];
    out.contexts.push_back(
        {context.index, context.stratum, context.source_cluster, context.partition, rows[i].rows});
  }
  out.reference = DescribeCapture(Compared(inputs, inputs.reference.manifest));
  out.candidate = DescribeCapture(Compared(inputs, candidate.capture.manifest));
  for (const auto& [name, capture] :
       {std::pair("reference", &inputs.reference), {"candidate", &candidate.capture}}) {
    for (Disclosure& one : DisclosuresOfCapture(capture->manifest, name)) {
      out.disclosures.push_back(std::move(one));
    }
  }
  out.numeric = Numeric(request, group, run, number);
  const auto add = [&](std::string_view mode, const OfflineHead& head) -> absl::Status {
    HeadResult result;
    result.reference_head = inputs.head.identity;
    result.candidate_head = head.identity;
    ASSAY_ASSIGN_OR_RETURN(result.arrays,
                           AssemblePositions(run.files, ComparisonId(number, mode), rows));
    out.heads.emplace(std::string(mode), std::move(result));
    return absl::OkStatus();
  };
  if (ReplayInputs::HasOwn(candidate)) {
    ASSAY_RETURN_IF_ERROR(add(kHeadOwn, *candidate.own_head));
  }
  if (inputs.HasShared(candidate)) {
    ASSAY_RETURN_IF_ERROR(add(kHeadShared, inputs.head));
  }
  return out;
}

class Replay {
 public:
  Replay(const OfflineReplayRequest& request, const OfflineRanks& ranks, const OfflineHooks& hooks)
      : request_(request), ranks_(ranks), hooks_(hooks), started_ms_(Clock::Real()->UnixMillis()) {}

  absl::StatusOr<OfflineReplayResult> Run();

 private:
  absl::Status FirstError() const;
  absl::StatusOr<ReplayRun> RunVerified(Group& group, const std::string& work, CaptureCheck* check);
  void NoteFoundBiases() const;
  absl::StatusOr<SummaryCandidate> WriteCandidate(const Group& group, const ReplayRun& run,
                                                  size_t number);
  Json Execution(const Group& group, const ReplayRun& run, const std::string& label) const;

  const OfflineReplayRequest& request_;
  const OfflineRanks& ranks_;
  const OfflineHooks& hooks_;
  const int64_t started_ms_;
  ReplayInputs inputs_;
};

// OK while a candidate is left.
absl::Status Replay::FirstError() const {
  for (const ReplayCandidate& candidate : inputs_.candidates) {
    if (candidate.status.ok()) return candidate.status;
  }
  return inputs_.candidates.front().status;
}

// Computes while the captures are read for their digests. A damaged reference ends the replay, a
// damaged candidate leaves it; then the others are computed anew, for its values may have moved the
// backend of all.
absl::StatusOr<ReplayRun> Replay::RunVerified(Group& group, const std::string& work,
                                              CaptureCheck* check) {
  absl::StatusOr<ReplayRun> run = RunReplayUnits(request_, group, work, hooks_, &inputs_);
  const CaptureCheck::Verdict& verdict = check->Wait();
  ASSAY_RETURN_IF_ERROR(verdict.reference);
  bool damaged = false;
  for (size_t c = 0; c < inputs_.candidates.size(); ++c) {
    if (verdict.candidates[c].ok()) continue;
    inputs_.candidates[c].status = verdict.candidates[c];
    damaged = true;
  }
  if (!damaged) return run;
  ASSAY_RETURN_IF_ERROR(FirstError());
  return RunReplayUnits(request_, group, work, hooks_, &inputs_);
}

void Replay::NoteFoundBiases() const {
  if (!hooks_.note) return;
  const auto note = [&](const OfflineHead& head, const std::string& flag) {
    if (!head.bias_found) return;
    hooks_.note(head.spec + ": adding " + head.bias_tensor + ", which lies beside the head; " +
                flag + " none leaves it out");
  };
  note(inputs_.head, "--head-bias");
  for (const ReplayCandidate& candidate : inputs_.candidates) {
    if (candidate.own_head) note(*candidate.own_head, "--candidate-head-bias");
  }
}

Json Replay::Execution(const Group& group, const ReplayRun& run, const std::string& label) const {
  return {{"schema", kExecutionSchema},
          {"sealed", false},
          {"mode", "assay replay"},
          {"build", BuildId()},
          {"label", label},
          {"started", FormatUtc(started_ms_)},
          {"finished", FormatUtc(Clock::Real()->UnixMillis())},
          {"tensor_parallel", group.size()},
          {"threads_per_rank", group.threads()},
          {"row_tile", request_.row_tile},
          {"units", run.units}};
}

absl::StatusOr<SummaryCandidate> Replay::WriteCandidate(const Group& group, const ReplayRun& run,
                                                        size_t number) {
  SummaryCandidate out;
  out.label = inputs_.candidates[number].label;
  ASSAY_ASSIGN_OR_RETURN(const ReportInputs report_inputs,
                         GatherReport(request_, group, inputs_, run, number));
  ASSAY_ASSIGN_OR_RETURN(out.report, BuildReport(report_inputs));
  CandidateFiles files;
  ASSAY_ASSIGN_OR_RETURN(files.report, ReportBytes(out.report));
  out.report_sha256 = Sha256Hex(files.report);
  files.execution = PythonPrettyJson(Execution(group, run, out.label)) + "\n";
  for (const auto& [mode, result] : report_inputs.heads) files.heads[mode] = &result.arrays;
  ASSAY_RETURN_IF_ERROR(WriteCandidateFiles(request_.out, out.label, files));
  return out;
}

absl::StatusOr<OfflineReplayResult> Replay::Run() {
  if (request_.candidates.empty()) {
    return InvalidError("BAD_USAGE", "give at least one --candidate capture");
  }
  ASSAY_RETURN_IF_ERROR(CheckOut(request_.out));
  ASSAY_ASSIGN_OR_RETURN(inputs_, ReadReplayInputs(request_));
  ASSAY_RETURN_IF_ERROR(FirstError());
  CaptureCheck check(inputs_);
  ASSAY_ASSIGN_OR_RETURN(const std::unique_ptr<WorkFolder> work, WorkFolder::Lock(request_.out));
  ASSAY_ASSIGN_OR_RETURN(const std::unique_ptr<Group> group,
                         StartOfflineGroup(ranks_, /*capture=*/false, work->path(), hooks_));
  ASSAY_RETURN_IF_ERROR(PrepareHeads(request_, *group, work->path(), &inputs_));
  NoteFoundBiases();
  ASSAY_RETURN_IF_ERROR(FirstError());
  ASSAY_ASSIGN_OR_RETURN(const ReplayRun run, RunVerified(*group, work->path(), &check));
  OfflineReplayResult result;
  for (size_t c = 0; c < inputs_.candidates.size(); ++c) {
    ReplayCandidate& candidate = inputs_.candidates[c];
    SummaryCandidate row;
    row.label = candidate.label;
    if (candidate.status.ok()) {
      absl::StatusOr<SummaryCandidate> written = WriteCandidate(*group, run, c);
      candidate.status = written.status();
      if (written.ok()) row = std::move(*written);
    }
    if (!candidate.status.ok()) {
      row.failed_reason = ReasonOf(candidate.status);
      row.failed_message = MessageOf(candidate.status);
      ++result.failed;
    }
    result.statuses.push_back(candidate.status);
    result.candidates.push_back(std::move(row));
  }
  ASSAY_RETURN_IF_ERROR(FirstError());
  ASSAY_ASSIGN_OR_RETURN(result.summary, BuildSummary(result.candidates));
  ASSAY_RETURN_IF_ERROR(WriteSummaryFiles(request_.out, result.summary, result.candidates, ""));
  return result;
}

}  // namespace

absl::StatusOr<OfflineReplayResult> OfflineReplay(const OfflineReplayRequest& request,
                                                  const OfflineRanks& ranks,
                                                  const OfflineHooks& hooks) {
  return Replay(request, ranks, hooks).Run();
}

}  // namespace assay
