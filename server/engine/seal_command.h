// The command that ends a candidate's seal intent, from the documents that are sealed.

#ifndef ASSAY_SERVER_ENGINE_SEAL_COMMAND_H_
#define ASSAY_SERVER_ENGINE_SEAL_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/apply.h"
#include "storage/seal/receipt.h"
#include "storage/seal/signer.h"

namespace assay {

// What is sealed of one candidate. Bytes and digests only.
struct SealContent {
  const RunRow* run = nullptr;  // SEALING
  size_t candidate = 0;
  std::string report, execution;    // bytes
  std::vector<InputDigest> inputs;  // of the report
  std::vector<ArrayRow> arrays;
  std::string log_origin, previous_checkpoint;
};

struct SealCommand {
  SealDone done;
  std::string receipt;  // bytes; to be stored as a blob before the command is executed
};

// Deterministic: the same content, key and log give the same bytes. The errors of SealReport.
absl::StatusOr<SealCommand> MakeSealCommand(const SealContent& content, const Signer& signer,
                                            const LogReader& log);

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_SEAL_COMMAND_H_
