// --policy and --backend of the commands that replay.

#ifndef ASSAY_CLIENT_CLI_NUMERIC_OPTIONS_H_
#define ASSAY_CLIENT_CLI_NUMERIC_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "storage/report/numeric_policy.h"

namespace assay {

// Both strings outlive `command` and hold the defaults. The policy is checked when the command runs
// (CheckNumericPolicy).
inline void AddNumericOptions(CLI::App* command, std::string* policy, std::string* backend) {
  command
      ->add_option("--policy", *policy,
                   "Numeric policy: exact, fp64-audit (slow oracle) or torch-bf16 (logits rounded "
                   "to bf16, as published numbers were)")
      ->capture_default_str();
  std::vector<std::string> backends = {"auto"};
  backends.insert(backends.end(), kReplayBackends.begin(), kReplayBackends.end());
  command
      ->add_option("--backend", *backend,
                   "Replay backend of the whole run: auto (cpu-bf16 where the CPU has AVX512-BF16 "
                   "and no value is too large for it, else cpu-f32), cpu-bf16, cpu-f32, cuda-bf16. "
                   "cpu-bf16 uses AMX where there is one; ASSAY_REPLAY_ISA=avx512_core_bf16 in the "
                   "environment does without")
      ->check(CLI::IsMember(backends))
      ->capture_default_str();
}

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_NUMERIC_OPTIONS_H_
