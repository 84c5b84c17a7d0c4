#include "server/maintain/commands.h"

#include <unistd.h>

#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "server/maintain/backup.h"
#include "server/maintain/collect.h"
#include "server/maintain/fsck.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kHoursMax = 24 * 36'500;

constexpr const char* kHelp = R"(usage: assayd fsck [--data DIR] [--anchor FILE] [--repair]
       assayd backup DEST [--data DIR] [--anchor FILE]
       assayd gc [--data DIR] [--dry-run] [--keep-runs-hours N] [--grace-hours N]

fsck    reads everything in a data folder that no coordinator uses: the chain of batches, the anchor, rows,
        the log and the bytes of every blob. Names what is damaged and what can be made again from the rest;
        with --repair it is. Without, nothing is changed.
        Exit codes: 0 nothing is damaged (any more), 20 something is that only a backup brings back,
        23 all of it can be repaired, 21 made by a newer build, 22 in use, 1 anything else.
backup  copies a data folder to DEST, also while a coordinator works with it. To restore, start assayd with
        --data on a copy of DEST.
gc      asks the coordinator of the data folder to remove runs that ended --keep-runs-hours ago (720) and of
        which nothing was sealed, the units of other ended runs, and blobs and unfinished uploads that nothing
        names and nobody has touched for --grace-hours (24). What a receipt names stays. --dry-run only counts.
)";

struct Arguments {
  std::vector<std::string> positional;
  std::map<std::string, std::string> values;  // "" for a flag without one
  bool has(const std::string& name) const { return values.count(name) != 0; }
};

absl::StatusOr<Arguments> Parse(const std::vector<std::string>& args,
                                const std::map<std::string, bool>& known) {
  Arguments out;
  for (size_t i = 1; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg.rfind("--", 0) != 0) {
      out.positional.push_back(arg);
      continue;
    }
    const size_t equals = arg.find('=');
    const std::string name = arg.substr(2, equals == std::string::npos ? equals : equals - 2);
    const auto flag = known.find(name);
    if (flag == known.end() || (!flag->second && equals != std::string::npos)) {
      return InvalidError("FLAG_INVALID", arg + " is not a flag of assayd " + args[0] +
                                              "; see assayd " + args[0] + " --help");
    }
    if (flag->second && equals == std::string::npos && i + 1 >= args.size())
      return InvalidError("FLAG_INVALID", arg + " wants a value");
    if (!flag->second) {
      out.values[name] = "";
    } else {
      out.values[name] = equals == std::string::npos ? args[++i] : arg.substr(equals + 1);
    }
  }
  return out;
}

absl::StatusOr<int64_t> Hours(const Arguments& arguments, const std::string& name,
                              int64_t default_ms) {
  const auto it = arguments.values.find(name);
  if (it == arguments.values.end()) return default_ms;
  int64_t hours = 0;
  const std::string& text = it->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hours);
  if (error != std::errc() || end != text.data() + text.size() || hours < 0 || hours > kHoursMax) {
    return InvalidError("FLAG_INVALID", "--" + name + " wants a whole number of hours from 0 to " +
                                            std::to_string(kHoursMax) + ", not \"" + text + "\"");
  }
  return hours * kHourMs;
}

std::string DataDir(const Arguments& arguments, const std::string& default_data_dir) {
  const auto it = arguments.values.find("data");
  return it == arguments.values.end() ? default_data_dir : it->second;
}

std::string AnchorOf(const Arguments& arguments) {
  const auto it = arguments.values.find("anchor");
  return it == arguments.values.end() ? "" : it->second;
}

absl::StatusOr<int> RunFsck(const std::vector<std::string>& args, const std::string& data) {
  ASSAY_ASSIGN_OR_RETURN(const Arguments arguments,
                         Parse(args, {{"data", true}, {"anchor", true}, {"repair", false}}));
  if (!arguments.positional.empty())
    return InvalidError("FLAG_INVALID", "assayd fsck takes no folder; give it with --data");
  FsckOptions options{DataDir(arguments, data), AnchorOf(arguments), arguments.has("repair")};
  ASSAY_ASSIGN_OR_RETURN(const FsckReport report, Fsck(options));
  std::fputs(report.ToText().c_str(), stdout);
  return report.ExitCode();
}

absl::StatusOr<std::string> BackupOffline(const std::string& data_dir, const std::string& anchor,
                                          const std::string& dest) {
  ASSAY_ASSIGN_OR_RETURN(const auto catalogue, Catalogue::Open({data_dir, anchor}));
  FileBlobStoreOptions options;
  options.dir = JoinPath(data_dir, "blobs");
  const auto blobs = FileBlobStore::Existing(options);
  ASSAY_ASSIGN_OR_RETURN(const BackupResult result, Backup({*catalogue, *blobs, data_dir}, dest));
  return result.ToText(dest);
}

absl::StatusOr<int> RunBackup(const std::vector<std::string>& args, const std::string& data) {
  ASSAY_ASSIGN_OR_RETURN(const Arguments arguments,
                         Parse(args, {{"data", true}, {"anchor", true}}));
  if (arguments.positional.size() != 1)
    return InvalidError("FLAG_INVALID", "assayd backup wants one folder to write to");
  const std::string data_dir = DataDir(arguments, data);
  if (!IsDirectory(JoinPath(data_dir, "db"))) {
    return NotFoundError("FILE_MISSING", data_dir +
                                             ": no data folder of a coordinator (db is "
                                             "missing); give the right --data");
  }
  std::string dest = arguments.positional[0];
  if (dest.empty() || dest[0] != '/') {  // the coordinator has another current folder
    char here[PATH_MAX];
    if (::getcwd(here, sizeof(here)) == nullptr) return ErrnoError(errno, "the current folder");
    dest = JoinPath(here, dest);
  }
  absl::StatusOr<std::string> text =
      AskCoordinator(data_dir, {{"command", "backup"}, {"dest", dest}});
  if (ReasonOf(text.status()) == "COORDINATOR_NOT_RUNNING")
    text = BackupOffline(data_dir, AnchorOf(arguments), dest);
  ASSAY_RETURN_IF_ERROR(text.status());
  std::fputs(text->c_str(), stdout);
  return 0;
}

absl::StatusOr<int> RunGc(const std::vector<std::string>& args, const std::string& data) {
  ASSAY_ASSIGN_OR_RETURN(const Arguments arguments, Parse(args, {{"data", true},
                                                                 {"dry-run", false},
                                                                 {"keep-runs-hours", true},
                                                                 {"grace-hours", true}}));
  if (!arguments.positional.empty())
    return InvalidError("FLAG_INVALID", "assayd gc takes no folder; give it with --data");
  CollectOptions options;
  ASSAY_ASSIGN_OR_RETURN(options.keep_runs_ms,
                         Hours(arguments, "keep-runs-hours", options.keep_runs_ms));
  ASSAY_ASSIGN_OR_RETURN(options.grace_ms, Hours(arguments, "grace-hours", options.grace_ms));
  ASSAY_ASSIGN_OR_RETURN(
      const std::string text,
      AskCoordinator(DataDir(arguments, data), {{"command", "gc"},
                                                {"dry_run", arguments.has("dry-run")},
                                                {"keep_runs_ms", options.keep_runs_ms},
                                                {"grace_ms", options.grace_ms}}));
  std::fputs(text.c_str(), stdout);
  return 0;
}

int ExitCodeOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason == "FLAG_INVALID") return 2;
  if (reason == "STORE_DAMAGED") return 20;
  if (reason == "STORE_VERSION") return 21;
  if (reason == "STORE_IN_USE") return 22;
  return 1;
}

}  // namespace

std::optional<int> RunMaintenance(const std::vector<std::string>& args,
                                  const std::string& default_data_dir) {
  using Function = absl::StatusOr<int> (*)(const std::vector<std::string>&, const std::string&);
  const std::map<std::string, Function> commands = {
      {"fsck", RunFsck}, {"backup", RunBackup}, {"gc", RunGc}};
  const auto command = args.empty() ? commands.end() : commands.find(args[0]);
  if (command == commands.end()) return std::nullopt;
  for (const std::string& arg : args) {
    if (arg != "--help" && arg != "-h") continue;
    std::fputs(kHelp, stdout);
    return 0;
  }
  const absl::StatusOr<int> code = command->second(args, default_data_dir);
  if (code.ok()) return *code;
  std::fprintf(stderr, "assayd: error [%s]: %s\n", ReasonOf(code.status()).c_str(),
               MessageOf(code.status()).c_str());
  return ExitCodeOf(code.status());
}

ControlHandler MaintenanceHandler(Engine* engine) {
  return [engine](const Json& request) -> absl::StatusOr<std::string> {
    const std::string command = request.value("command", "");
    LogJson("info", "maintenance", {{"request", request}});
    if (command == "backup") {
      const std::string dest = request.value("dest", "");
      const std::lock_guard<std::mutex> one_at_a_time(engine->maintenance());
      ASSAY_ASSIGN_OR_RETURN(
          const BackupResult result,
          Backup({engine->catalogue(), engine->blobs(), engine->options().data_dir}, dest));
      return result.ToText(dest);
    }
    if (command == "gc") {
      CollectOptions options;
      options.dry_run = request.value("dry_run", true);
      options.keep_runs_ms = request.value("keep_runs_ms", options.keep_runs_ms);
      options.grace_ms = request.value("grace_ms", options.grace_ms);
      ASSAY_ASSIGN_OR_RETURN(const Collected collected, Collect(engine, options));
      return collected.ToText(options.dry_run);
    }
    return InvalidError("CONTROL_INVALID", "the coordinator knows no command \"" + command + "\"");
  };
}

}  // namespace assay
