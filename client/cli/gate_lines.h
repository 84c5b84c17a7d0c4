// Gates of published artefacts as people and programs read them.

#ifndef ASSAY_CLIENT_CLI_GATE_LINES_H_
#define ASSAY_CLIENT_CLI_GATE_LINES_H_

#include <string>

#include "client/cli/command.h"
#include "storage/published/examine.h"

namespace assay {

// How a gate came out: "pass", "FAIL", "--" (not checked), "n/a", and the same for programs.
struct GateWords {
  const char* line;
  const char* json;
};
GateWords WordsOf(PublishedOutcome outcome);

// One line per gate, "pass", "FAIL", "--" (not checked) or "n/a" and why, then one verdict about
// `subject`; with --json
// {"subject","what","schema","verdict","gates":[{"gate","outcome","detail"}]}. Returns kExitSuccess
// or kExitVerificationFailed.
int PrintGates(const std::string& subject, const PublishedExamination& examination,
               CliContext& context);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_GATE_LINES_H_
