#include <new>

#include "worker/capture/engine.h"
#include "worker/capture/native_engine.h"

extern "C" assay::CaptureEngine* assay_capture_create(int abi_version) {
  if (abi_version != assay::kCaptureAbiVersion) return nullptr;
  return new (std::nothrow) assay::capture::NativeEngine();
}
