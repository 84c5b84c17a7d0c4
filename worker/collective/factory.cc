#include <dlfcn.h>
#include <unistd.h>

#include <array>

#include "storage/base/files.h"
#include "storage/base/status.h"
#include "worker/collective/backends.h"

namespace assay {
namespace collective_internal {
namespace {

struct NcclLibrary {
  NcclDeviceCountFunction device_count = nullptr;
  NcclCreateFunction create = nullptr;
  std::string error;  // why it is not there
};

// Beside the program only: a library of that name elsewhere on the search path is not ours.
std::string BesideProgram() {
  std::array<char, 4096> buffer{};
  const ssize_t n = readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
  if (n <= 0) return kNcclLibrary;
  return JoinPath(DirName(std::string_view(buffer.data(), static_cast<size_t>(n))), kNcclLibrary);
}

NcclLibrary LoadNccl() {
  NcclLibrary out;
  void* handle = dlopen(BesideProgram().c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
  if (handle == nullptr) {
    const char* why = dlerror();
    out.error = why != nullptr ? why : "cannot be loaded";
    return out;
  }
  const auto abi = reinterpret_cast<NcclAbiFunction>(dlsym(handle, "assay_nccl_abi"));
  if (abi == nullptr || abi() != kNcclAbi) {
    out.error = std::string(kNcclLibrary) + " is of another build";
    return out;
  }
  out.device_count =
      reinterpret_cast<NcclDeviceCountFunction>(dlsym(handle, "assay_nccl_device_count"));
  out.create = reinterpret_cast<NcclCreateFunction>(dlsym(handle, "assay_nccl_create"));
  if (out.device_count == nullptr || out.create == nullptr) {
    out.error = std::string(kNcclLibrary) + " lacks a symbol";
    out.create = nullptr;
  }
  return out;
}

const NcclLibrary& Nccl() {
  static const NcclLibrary library = LoadNccl();
  return library;
}

}  // namespace

int NcclDeviceCount() { return Nccl().create == nullptr ? 0 : Nccl().device_count(); }

absl::StatusOr<std::unique_ptr<Collective>> CreateNccl(const CollectiveOptions& options) {
  const NcclLibrary& library = Nccl();
  if (library.create == nullptr) {
    return PreconditionError("COLLECTIVE_UNAVAILABLE", "nccl: " + library.error);
  }
  absl::Status status;
  std::unique_ptr<Collective> out(library.create(&options, &status));
  if (out == nullptr) return status;
  return out;
}

}  // namespace collective_internal

namespace {

absl::Status CheckOptions(const CollectiveOptions& o) {
  std::string why;
  if (o.size < 1 || o.size > kCollectiveSizeMax) {
    why = "size " + std::to_string(o.size) + " is not in 1.." + std::to_string(kCollectiveSizeMax);
  } else if (o.rank < 0 || o.rank >= o.size) {
    why = "rank " + std::to_string(o.rank) + " is not in a group of " + std::to_string(o.size);
  } else if (o.timeout_ms <= 0) {
    why = "the timeout must be positive";
  } else if (o.size > 1 && o.rendezvous.empty()) {
    why = "a group of more than one needs a rendezvous folder";
  } else if (o.backend != "auto" && o.backend != "single" && o.backend != "gloo" &&
             o.backend != "nccl") {
    why = "backend \"" + o.backend + "\" is none of auto, single, gloo, nccl";
  } else if (o.backend == "single" && o.size != 1) {
    why = "backend single is for a group of one";
  } else if (o.backend == "gloo" && o.rendezvous.empty()) {
    why = "backend gloo needs a rendezvous folder";
  }
  return why.empty() ? absl::OkStatus() : InvalidError("COLLECTIVE_USAGE", why);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> CreateCollective(const CollectiveOptions& options) {
  using namespace collective_internal;  // NOLINT: the backends of this interface
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (options.backend == "gloo") return CreateGloo(options);
  if (options.backend == "nccl") return CreateNccl(options);
  if (options.size == 1) return CreateSingle();
  // Ranks of a group share one host, so all of them count the same devices and choose alike.
  if (NcclDeviceCount() >= options.size) return CreateNccl(options);
  return CreateGloo(options);
}

}  // namespace assay
