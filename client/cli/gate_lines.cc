#include "client/cli/gate_lines.h"

#include <algorithm>

#include "fmt/format.h"

namespace assay {
GateWords WordsOf(PublishedOutcome outcome) {
  switch (outcome) {
    case PublishedOutcome::kPass:
      return {"pass", "pass"};
    case PublishedOutcome::kFail:
      return {"FAIL", "fail"};
    case PublishedOutcome::kNotChecked:
      return {"--", "not_checked"};
    case PublishedOutcome::kNotApplicable:
      return {"n/a", "not_applicable"};
  }
  return {"", ""};
}

int PrintGates(const std::string& subject, const PublishedExamination& examination,
               CliContext& context) {
  Json json = {{"subject", subject}, {"what", examination.what}, {"schema", examination.schema}};
  json["verdict"] = examination.ok() ? "valid" : "refused";
  json["gates"] = Json::array();
  size_t width = 0, failed = 0;
  for (const PublishedCheck& check : examination.checks) width = std::max(width, check.gate.size());
  std::string text;
  for (const PublishedCheck& check : examination.checks) {
    const GateWords words = WordsOf(check.outcome);
    failed += check.outcome == PublishedOutcome::kFail ? 1 : 0;
    json["gates"].push_back(
        {{"gate", check.gate}, {"outcome", words.json}, {"detail", check.detail}});
    text += fmt::format("{:<4}  {:<{}}  {}\n", words.line, check.gate, width, check.detail);
  }
  text += examination.ok() ? fmt::format("VALID: {} ({})\n", subject, examination.what)
                           : fmt::format("REFUSED: {} ({}): {} of {} gates failed\n", subject,
                                         examination.what, failed, examination.checks.size());
  context.PrintJson(json);
  context.Print(text);
  return examination.ok() ? kExitSuccess : kExitVerificationFailed;
}

}  // namespace assay
