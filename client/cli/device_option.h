// --device: which processors of this machine a command's own ranks use.

#ifndef ASSAY_CLIENT_CLI_DEVICE_OPTION_H_
#define ASSAY_CLIENT_CLI_DEVICE_OPTION_H_

#include <cstdlib>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "storage/base/status.h"

namespace assay {

inline CLI::Option* AddDeviceOption(CLI::App* command, std::string* device) {
  return command
      ->add_option(
          "--device", *device,
          "auto, cpu (no GPU is touched) or cuda:LIST (those GPUs, as in cuda:0,1: replays "
          "use --backend cuda-bf16). Captures run on the CPU")
      ->capture_default_str();
}

// Makes `device` so for every process that this one starts later. `backend`, where it is "auto",
// becomes what the device asks for; may be null. DEVICE_INVALID.
inline absl::Status ApplyDevice(const std::string& device, std::string* backend) {
  if (device == "auto") return absl::OkStatus();
  const std::string list = device.rfind("cuda:", 0) == 0 ? device.substr(5) : "";
  const bool numbers =
      !list.empty() && list.find_first_not_of("0123456789,") == std::string::npos &&
      list.front() != ',' && list.back() != ',' && list.find(",,") == std::string::npos;
  if (device != "cpu" && !numbers) {
    return InvalidError("DEVICE_INVALID", "--device " + device +
                                              ": give auto, cpu or cuda:LIST, LIST being numbers "
                                              "of GPUs divided by commas");
  }
  if (backend != nullptr && device == "cpu" && *backend == "cuda-bf16") {
    return InvalidError("DEVICE_INVALID",
                        "--device cpu and --backend cuda-bf16 exclude each other");
  }
  if (backend != nullptr && numbers && *backend == "auto") *backend = "cuda-bf16";
  setenv("CUDA_VISIBLE_DEVICES", list.c_str(), 1);
  return absl::OkStatus();
}

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_DEVICE_OPTION_H_
