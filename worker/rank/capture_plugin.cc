#include "worker/rank/capture_plugin.h"

#include <dlfcn.h>

#include "storage/base/status.h"

namespace assay {
namespace {

constexpr char kCreateSymbol[] = "assay_capture_create";

std::string LoaderError() {
  const char* text = dlerror();
  return text == nullptr ? "unknown loader error" : text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CapturePlugin>> CapturePlugin::Open(const std::string& path) {
  int flags = RTLD_NOW | RTLD_LOCAL;
#ifndef ASSAY_SANITIZED
  flags |= RTLD_DEEPBIND;
#endif
  void* library = dlopen(path.c_str(), flags);
  if (library == nullptr) {
    return PreconditionError("CAPTURE_ENGINE_MISSING",
                             "the capture engine could not be loaded: " + LoaderError() +
                                 "; it belongs beside assay-rank and needs libtorch");
  }
  using Create = CaptureEngine* (*)(int);
  const Create create = reinterpret_cast<Create>(dlsym(library, kCreateSymbol));
  if (create == nullptr) {
    return PreconditionError("CAPTURE_ENGINE_ABI",
                             path + ": " + LoaderError() + "; it is no capture engine of Assay");
  }
  CaptureEngine* engine = create(kCaptureAbiVersion);
  if (engine == nullptr) {
    return PreconditionError("CAPTURE_ENGINE_ABI",
                             path + " does not offer interface version " +
                                 std::to_string(kCaptureAbiVersion) +
                                 "; install the worker programs of one build");
  }
  return std::unique_ptr<CapturePlugin>(new CapturePlugin(engine));
}

}  // namespace assay
