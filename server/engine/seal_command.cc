#include "server/engine/seal_command.h"

#include "storage/base/digest.h"
#include "storage/base/macros.h"

namespace assay {

absl::StatusOr<SealCommand> MakeSealCommand(const SealContent& content, const Signer& signer,
                                            const LogReader& log) {
  SealRequest request;
  request.report = content.report;
  request.execution = content.execution;
  request.inputs = content.inputs;
  request.log_origin = content.log_origin;
  request.previous_checkpoint = content.previous_checkpoint;
  ASSAY_ASSIGN_OR_RETURN(SealedBundle bundle, SealReport(request, signer, log));

  const RunRow& run = *content.run;
  const CandidateRow& candidate = run.candidates[content.candidate];
  SealCommand out;
  SealDone& done = out.done;
  done.run = run.id;
  done.candidate = content.candidate;
  done.report.id = Sha256Hex(content.report);
  done.report.report_bytes = content.report.size();
  done.report.execution_sha256 = Sha256Hex(content.execution);
  done.report.execution_bytes = content.execution.size();
  done.report.receipt = bundle.receipt_id;
  done.report.run = run.id;
  done.report.label = candidate.label;
  done.report.arrays = content.arrays;
  done.report.create_ms = run.seal_ms;
  done.report.fingerprint = candidate.fingerprint;
  done.receipt.id = bundle.receipt_id;
  done.receipt.receipt_sha256 = Sha256Hex(bundle.receipt);
  done.receipt.receipt_bytes = bundle.receipt.size();
  done.receipt.report = done.report.id;
  done.receipt.leaf_index = bundle.append.leaf_index;
  done.receipt.key_id = signer.key_id();
  done.receipt.create_ms = run.seal_ms;
  for (const LogNode& node : bundle.append.nodes) {
    done.nodes.push_back({node.level, node.index, std::string(node.hash.begin(), node.hash.end())});
  }
  done.log_size = bundle.append.new_size;
  done.checkpoint = bundle.checkpoint;
  out.receipt = std::move(bundle.receipt);
  return out;
}

}  // namespace assay
