// assay capture convert: captures of other forms as Assay's own, and back.

#include <memory>

#include "client/cli/artefact_commands.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/number_format.h"
#include "storage/published/convert.h"
#include "worker/group/group.h"

namespace assay {
namespace {

struct ConvertCommand {
  std::string dir, out, suite;
  bool back = false;
};

absl::StatusOr<int> RunConvert(const ConvertCommand& command, CliContext& context) {
  Suite suite;
  if (!command.suite.empty()) {
    ASSAY_ASSIGN_OR_RETURN(suite, ReadSuite(command.suite));
  }
  context.progress().Begin(command.back ? "give back" : "verify and convert", "");
  ASSAY_ASSIGN_OR_RETURN(const Conversion made,
                         command.back
                             ? ConvertBack(command.dir, command.out)
                             : ConvertCapture(command.dir, command.suite.empty() ? nullptr : &suite,
                                              command.out, AffinityCpus()));
  context.progress().End();
  const std::string form(CaptureFormName(made.form));
  context.PrintJson(Json{{"folder", command.out},
                         {"form", form},
                         {"files", made.files},
                         {"bytes", made.bytes},
                         {"back", command.back}});
  std::string text = fmt::format("{}: {} published files ({}), {}\n", command.out, made.files, form,
                                 HumanBytes(made.bytes));
  if (!command.back) {
    text += fmt::format(
        "Use {0}/capture{1} as any capture; the published files again:\n\n"
        "    assay capture convert {0} --back --out DIR\n",
        command.out,
        made.form == CaptureForm::kDataset ? fmt::format(", {0}/suite and {0}/head", command.out)
                                           : "");
  }
  context.Print(text);
  return kExitSuccess;
}

}  // namespace

void AddCaptureConvertCommand(CLI::App& capture, CliContext& context) {
  auto command = std::make_shared<ConvertCommand>();
  CLI::App* convert = AddCommand(
      capture, context, "convert",
      "Write a published capture in the form that every command takes, with all that is needed to\n"
      "give the published files back byte for byte. What would be lost is refused: logits, masks,\n"
      "contexts of several lengths, parts of a panel.",
      "  assay capture convert glm53-root --out root\n"
      "  assay capture convert v3/reference-hidden --suite v3 --out reference\n"
      "  assay capture convert root --back --out glm53-root-again\n");
  convert->add_option("DIR", command->dir, "Capture folder or dataset; with --back a conversion")
      ->required();
  convert->add_option("--out", command->out, "Folder to write; it must not exist")->required();
  convert->add_option("--suite", command->suite, "Suite of a legacy capture, which does not say");
  convert->add_flag("--back", command->back, "Give the published files back");
  OnRun(convert, context, [command, &context] { return RunConvert(*command, context); });
}

}  // namespace assay
