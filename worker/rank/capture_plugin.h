// Loads libassay_capture.so.

#ifndef ASSAY_WORKER_RANK_CAPTURE_PLUGIN_H_
#define ASSAY_WORKER_RANK_CAPTURE_PLUGIN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/capture/engine.h"

namespace assay {

// An engine and the library it lives in; the library stays loaded for the process's life, since
// libtorch does not survive being unloaded.
class CapturePlugin {
 public:
  // dlopen with RTLD_LOCAL and, except under sanitizers (they refuse it), RTLD_DEEPBIND: the Gloo
  // and Protobuf inside a wheel's libtorch must not meet this program's. CAPTURE_ENGINE_MISSING
  // when the library is not there or cannot be loaded (with the loader's sentence),
  // CAPTURE_ENGINE_ABI when it is of another build.
  static absl::StatusOr<std::unique_ptr<CapturePlugin>> Open(const std::string& path);

  CaptureEngine& engine() { return *engine_; }

 private:
  explicit CapturePlugin(CaptureEngine* engine) : engine_(engine) {}
  std::unique_ptr<CaptureEngine> engine_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_RANK_CAPTURE_PLUGIN_H_
