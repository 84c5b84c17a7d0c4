// --backend of the commands that replay.

#ifndef ASSAY_CLIENT_CLI_BACKEND_OPTION_H_
#define ASSAY_CLIENT_CLI_BACKEND_OPTION_H_

#include <string>

#include "CLI/CLI.hpp"

namespace assay {

// `backend` outlives `command`; it holds the default.
inline void AddBackendOption(CLI::App* command, std::string* backend) {
  command
      ->add_option("--backend", *backend,
                   "Replay backend of the whole run: auto (cpu-bf16 where the CPU has AVX512-BF16 "
                   "and no value is too large for it, else cpu-f32), cpu-bf16, cpu-f32, cuda-bf16")
      ->check(CLI::IsMember({"auto", "cpu-bf16", "cpu-f32", "cuda-bf16"}))
      ->capture_default_str();
}

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_BACKEND_OPTION_H_
