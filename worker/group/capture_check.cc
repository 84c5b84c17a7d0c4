#include "worker/group/capture_check.h"

#include <utility>

#include "storage/format/capture.h"

namespace assay {

CaptureCheck::CaptureCheck(const ReplayInputs& inputs) {
  // The thread has its own copies: candidates may be marked while it reads.
  std::vector<std::string> folders = {inputs.reference.dir};
  for (const ReplayCandidate& candidate : inputs.candidates) {
    folders.push_back(candidate.status.ok() ? candidate.dir : "");
  }
  verdict_.candidates.resize(inputs.candidates.size());
  thread_ = std::thread(
      [this, folders = std::move(folders), suite = inputs.ComparedSuite(), filter = inputs.filter] {
        for (size_t i = 0; i < folders.size(); ++i) {
          if (folders[i].empty()) continue;
          const absl::Status status =
              OpenCapture(folders[i], suite, filter, /*verify_digests=*/true).status();
          (i == 0 ? verdict_.reference : verdict_.candidates[i - 1]) = status;
        }
      });
}

const CaptureCheck::Verdict& CaptureCheck::Wait() {
  Join();
  return verdict_;
}

}  // namespace assay
