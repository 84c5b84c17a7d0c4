// assay pack: a result as one file for a colleague.

#include <filesystem>
#include <memory>

#include "client/cli/artefact_commands.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/number_format.h"
#include "storage/base/status.h"
#include "storage/seal/pack.h"

namespace assay {
namespace {

struct PackCommand {
  std::string out, file;
  bool no_positions = false;
};

// "result/" -> "result.tar", in the folder where the command runs.
absl::StatusOr<std::string> DefaultFile(const std::string& out) {
  const std::string name = BaseName(out);
  if (name.empty() || name == "/" || name == "." || name == "..") {
    return InvalidError("BAD_USAGE", "\"" + out + "\" gives the file no name; give --out FILE");
  }
  return name + ".tar";
}

// A file in the folder that is packed would be what verify calls unknown there, and the next pack
// would find it.
absl::Status CheckOutside(const std::string& file, const std::string& out) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(out, error), error);
  const fs::path inside =
      fs::weakly_canonical(fs::absolute(file, error), error).lexically_relative(folder);
  if (error || inside.empty() || *inside.begin() == "..") return absl::OkStatus();
  return InvalidError("BAD_USAGE", fmt::format("--out {}: lies in the folder {} that is packed; "
                                               "give a file outside of it",
                                               file, out));
}

absl::StatusOr<int> RunPack(PackCommand command, CliContext& context) {
  if (command.file.empty()) {
    ASSAY_ASSIGN_OR_RETURN(command.file, DefaultFile(command.out));
  }
  ASSAY_RETURN_IF_ERROR(CheckOutside(command.file, command.out));
  ASSAY_ASSIGN_OR_RETURN(const PackedFiles packed,
                         PackResult(command.out, !command.no_positions, command.file));
  context.PrintJson(Json{{"file", command.file},
                         {"files", packed.files},
                         {"bytes", packed.bytes},
                         {"positions", !command.no_positions},
                         {"left_out", packed.left_out}});
  std::string text =
      fmt::format("{}: {} files, {}\n", command.file, packed.files, HumanBytes(packed.bytes));
  if (!packed.left_out.empty()) {
    text += "Left out, being no part of a result:";
    for (const std::string& name : packed.left_out) text += " " + name;
    text += "\n";
  }
  if (command.no_positions) {
    text +=
        "The values of every position are not in it: whoever gets the file can check seals and\n"
        "summaries, but cannot compute the statistics again.\n";
  }
  context.Print(text + fmt::format("Read it with: assay verify {0}    assay report show {0}\n",
                                   command.file));
  return kExitSuccess;
}

}  // namespace

void AddPackCommand(CLI::App& app, CliContext& context) {
  auto command = std::make_shared<PackCommand>();
  CLI::App* pack = AddCommand(
      app, context, "pack",
      "Put a result into one file, a plain tar, which assay verify and assay report show read as\n"
      "it is. The same result gives the same bytes. Files that a result does not consist of are\n"
      "left out and named.",
      "  assay pack result\n"
      "  assay pack result --no-positions --out small.tar\n");
  pack->add_option("OUT", command->out, "The --out folder of a run, or a candidate's folder in it")
      ->required();
  pack->add_option("-o,--out,--output", command->file,
                   "File to write; default: the folder's name with .tar, here");
  pack->add_flag("--no-positions", command->no_positions,
                 "Leave out the arrays with the values of every position");
  OnRun(pack, context, [command, &context] { return RunPack(*command, context); });
}

}  // namespace assay
