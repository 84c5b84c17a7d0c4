#include "client/cli/offline_hooks.h"

#include "client/cli/interrupt.h"

namespace assay {

OfflineHooks CommandLineHooks(CliContext& context) {
  OfflineHooks hooks;
  hooks.progress = [&context](std::string_view phase, std::string_view unit, uint64_t done,
                              uint64_t total) {
    context.progress().Update(phase, unit, done, total);
  };
  hooks.note = [&context](std::string_view line) { context.progress().Note(line); };
  hooks.interrupted = [] { return Interrupted(); };
  return hooks;
}

void AddRankOptions(CLI::App* command, OfflineRanks* ranks) {
  command
      ->add_option("--tp", ranks->tp,
                   "Tensor-parallel degree: ranks that share the work; changes no result")
      ->check(CLI::IsMember({1, 2, 4, 8}))
      ->capture_default_str();
  command
      ->add_option("--threads", ranks->threads,
                   "Compute threads in all, shared by the ranks; 0 = the CPUs this process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

}  // namespace assay
