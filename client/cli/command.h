// The frame every command of `assay` plugs into.
//
// A command lives in its own file cmd_NAME.cc and exports `void AddNameCommand(CLI::App&,
// CliContext&)`, declared and called in commands.h/.cc:
//
//   void AddWorkersCommand(CLI::App& app, CliContext& context) {
//     auto options = std::make_shared<WorkersOptions>();
//     CLI::App* command = AddCommand(app, context, "workers", "List workers", "  assay workers\n");
//     command->add_option("--server", options->server, "...")->required();
//     OnRun(command, context, [options, &context] { return RunWorkers(*options, context); });
//   }
//
// The action returns an exit code, or an error that the frame prints and turns into one
// (exit_codes.h). Data go to out(), everything else to err(); with --json exactly one document goes
// to out(), also for an error.

#ifndef ASSAY_CLIENT_CLI_COMMAND_H_
#define ASSAY_CLIENT_CLI_COMMAND_H_

#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/exit_codes.h"
#include "client/cli/progress.h"
#include "storage/base/json.h"

namespace assay {

using CommandAction = std::function<absl::StatusOr<int>()>;

// What one invocation shares. Owned by RunCli; outlives the action. Not thread-safe.
class CliContext {
 public:
  // The streams outlive the context; `err_is_terminal` decides the form of progress lines.
  CliContext(std::ostream& out, std::ostream& err, bool err_is_terminal);

  bool json = false;   // --json
  bool quiet = false;  // --quiet: no progress lines

  std::ostream& out() { return out_; }
  std::ostream& err() { return err_; }
  ProgressPrinter& progress() { return progress_; }

  // Text for people; nothing with --json. A missing final newline is added.
  void Print(std::string_view text);
  // The one document of --json, indented; nothing without --json.
  void PrintJson(const Json& document);
  // "assay: warning: <sentence>" on err(), with --quiet too.
  void Warn(std::string_view sentence);
  // "assay: error [REASON]: sentence" on err(); with --json also {"error":{...}} on out(). Returns
  // ExitCodeOf(status).
  int PrintError(const absl::Status& status);

  void set_action(CommandAction action) { action_ = std::move(action); }
  // Runs the chosen action and returns the exit code of the process.
  int Run();

 private:
  std::ostream& out_;
  std::ostream& err_;
  ProgressPrinter progress_;
  CommandAction action_;
  bool printed_json_ = false;
};

// {"error":{"reason","message","code"}}, code as in gRPC ("INVALID_ARGUMENT").
Json ErrorJson(const absl::Status& status);

// Adds a subcommand with --json, --quiet and a footer of examples (each line "  assay ...").
CLI::App* AddCommand(CLI::App& parent, CliContext& context, const std::string& name,
                     const std::string& description, const std::string& examples);

// A command that only holds subcommands, with examples of them.
CLI::App* AddGroup(CLI::App& parent, const std::string& name, const std::string& description,
                   const std::string& examples);

// Has `action` run when `command` is the one chosen.
void OnRun(CLI::App* command, CliContext& context, CommandAction action);

// Parses the command line and runs the command. Returns the exit code. `out` and `err` get all
// output, help included.
int RunCli(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
           bool err_is_terminal);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_COMMAND_H_
