#include "client/cli/command.h"

#include <algorithm>
#include <exception>

#include "client/cli/commands.h"
#include "client/cli/unknown_words.h"
#include "fmt/format.h"
#include "storage/base/status.h"

namespace assay {

CliContext::CliContext(std::ostream& out, std::ostream& err, bool err_is_terminal)
    : out_(out), err_(err), progress_(err, err_is_terminal, /*quiet=*/false) {}

void CliContext::Print(std::string_view text) {
  if (json) return;
  out_ << text;
  if (text.empty() || text.back() != '\n') out_ << "\n";
  out_ << std::flush;
}

void CliContext::PrintJson(const Json& document) {
  if (!json || printed_json_) return;
  printed_json_ = true;
  out_ << document.dump(2, ' ', false, Json::error_handler_t::replace) << "\n" << std::flush;
}

void CliContext::Warn(std::string_view sentence) {
  const std::string line = fmt::format("assay: warning: {}", sentence);
  if (quiet) {
    err_ << line << "\n" << std::flush;
  } else {
    progress_.Note(line);
  }
}

int CliContext::PrintError(const absl::Status& status) {
  progress_.End(ReasonOf(status) == "INTERRUPTED" ? "stopped" : "failed");
  err_ << fmt::format("assay: error [{}]: {}\n", ReasonOf(status), MessageOf(status)) << std::flush;
  PrintJson(ErrorJson(status));
  return ExitCodeOf(status);
}

int CliContext::Run() {
  if (!action_) return kExitBadUsage;
  progress_.set_quiet(quiet);
  absl::StatusOr<int> result = kExitRunFailed;
  try {
    result = action_();
  } catch (const std::exception& error) {  // a library that throws: a bug, but never a bare abort
    result = InternalError("UNEXPECTED_EXCEPTION",
                           fmt::format("{}; this is a bug in assay, please report it with the "
                                       "command line",
                                       error.what()));
  }
  if (!result.ok()) return PrintError(result.status());
  progress_.End();
  return *result;
}

Json ErrorJson(const absl::Status& status) {
  Json error;
  error["reason"] = ReasonOf(status);
  error["message"] = MessageOf(status);
  error["code"] = absl::StatusCodeToString(status.code());
  Json document;
  document["error"] = std::move(error);
  return document;
}

CLI::App* AddCommand(CLI::App& parent, CliContext& context, const std::string& name,
                     const std::string& description, const std::string& examples) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->add_flag("--json", context.json, "Print one JSON document on standard output");
  command->add_flag("--quiet", context.quiet, "Print no progress lines");
  command->footer("Examples:\n" + examples);
  return command;
}

CLI::App* AddGroup(CLI::App& parent, const std::string& name, const std::string& description,
                   const std::string& examples) {
  CLI::App* group = parent.add_subcommand(name, description);
  group->require_subcommand(1);
  group->footer("Examples:\n" + examples);  // in place of the parent's, which it would inherit
  return group;
}

void OnRun(CLI::App* command, CliContext& context, CommandAction action) {
  // A command with subcommands of its own acts only when none of them was chosen.
  command->final_callback([command, &context, action] {
    if (command->get_subcommands().empty()) context.set_action(action);
  });
}

namespace {

// True when the user asked for JSON, for errors met before the options are parsed.
bool AsksForJson(int argc, const char* const* argv) {
  return std::any_of(argv + std::min(argc, 1), argv + argc,
                     [](const char* arg) { return std::string_view(arg) == "--json"; });
}

// The innermost chosen command, so that help is about what was typed, and what was typed before it.
struct Chosen {
  const CLI::App* command;
  std::string parents;  // "assay runs"; "" for the program itself
  std::string FullName() const {
    return parents.empty() ? "assay" : parents + " " + command->get_name();
  }
};

Chosen FindChosen(const CLI::App& app) {
  Chosen chosen{&app, ""};
  while (!chosen.command->get_subcommands().empty()) {
    chosen.parents = chosen.FullName();
    chosen.command = chosen.command->get_subcommands().front();
  }
  return chosen;
}

}  // namespace

int RunCli(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
           bool err_is_terminal) {
  CliContext context(out, err, err_is_terminal);
  CLI::App app(
      "Assay scores how faithfully a candidate model reproduces its reference model's next-token\n"
      "distributions, and seals the result so that a stranger can check it.",
      "assay");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  assay score --reference model.gguf --candidate int4=model.gguf@rtn:bits=4,group=32 \\\n"
      "      --suite suite --out result\n"
      "  assay verify result\n"
      "'assay COMMAND --help' describes each command. Exit codes: 0 success, 1 run failed, 2 bad "
      "usage,\n3 refused input, 4 partly, 5 verification failed, 6 valid but unknown key, 7 "
      "bound not met\n(report check), 130 interrupted.");
  AddAllCommands(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const Chosen chosen = FindChosen(app);
    out << chosen.command->help(chosen.parents);
    return kExitSuccess;
  } catch (const CLI::CallForAllHelp&) {
    out << app.help("", CLI::AppFormatMode::All);
    return kExitSuccess;
  } catch (const CLI::ParseError& error) {
    context.json = AsksForJson(argc, argv);
    const Chosen chosen = FindChosen(app);
    // What is required may be missing because it was misspelt: that is said first.
    const std::string unknown = DescribeUnknown(app);
    return context.PrintError(InvalidError(
        "BAD_USAGE", fmt::format("{}; see {} --help", unknown.empty() ? error.what() : unknown,
                                 chosen.FullName())));
  }
  return context.Run();
}

}  // namespace assay
