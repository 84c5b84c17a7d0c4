#include "worker/replay/cuda/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <string>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

struct Library {
  ReplayCudaOpenFunction open = nullptr;
  std::string missing;
};

// Beside the program only: a library of that name elsewhere on the search path is not ours.
std::string BesideProgram() {
  std::array<char, 4096> buffer{};
  const ssize_t n = readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
  if (n <= 0) return kReplayCudaLibrary;
  return JoinPath(DirName(std::string_view(buffer.data(), static_cast<size_t>(n))),
                  kReplayCudaLibrary);
}

Library Load() {
  Library out;
  void* library = dlopen(BesideProgram().c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) {
    const char* why = dlerror();
    out.missing = why == nullptr ? "it cannot be loaded" : why;
    return out;
  }
  const auto abi = reinterpret_cast<ReplayCudaAbiFunction>(dlsym(library, "assay_replay_cuda_abi"));
  out.open = reinterpret_cast<ReplayCudaOpenFunction>(dlsym(library, "assay_replay_cuda_open"));
  if (abi == nullptr || out.open == nullptr || abi() != kReplayCudaAbi) {
    out.open = nullptr;
    out.missing = std::string(kReplayCudaLibrary) + " belongs to another build";
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReplayDevice>> OpenReplayDevice(int rank) {
  static const Library library = Load();
  if (library.open == nullptr) {
    return PreconditionError("BACKEND_UNAVAILABLE",
                             "backend cuda-bf16 is not in this installation (" + library.missing +
                                 "); build on a machine with the CUDA toolkit, or use cpu-bf16 or "
                                 "cpu-f32");
  }
  absl::Status status;
  std::unique_ptr<ReplayDevice> device(library.open(rank, &status));
  ASSAY_RETURN_IF_ERROR(status);
  return device;
}

}  // namespace assay
