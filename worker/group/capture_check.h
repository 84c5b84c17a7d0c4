// Digests of captures, verified beside the computation that uses them.

#ifndef ASSAY_WORKER_GROUP_CAPTURE_CHECK_H_
#define ASSAY_WORKER_GROUP_CAPTURE_CHECK_H_

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "worker/group/replay_inputs.h"

namespace assay {

// Reads every file of the captures of `inputs` on a thread of its own and compares it with its
// manifest. What was computed of them counts only after Wait.
class CaptureCheck {
 public:
  explicit CaptureCheck(const ReplayInputs& inputs);
  ~CaptureCheck() { Join(); }
  CaptureCheck(const CaptureCheck&) = delete;
  CaptureCheck& operator=(const CaptureCheck&) = delete;

  struct Verdict {
    absl::Status reference;
    std::vector<absl::Status> candidates;  // OK for those that were out already
  };
  const Verdict& Wait();

 private:
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  Verdict verdict_;
  std::thread thread_;
};

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_CAPTURE_CHECK_H_
