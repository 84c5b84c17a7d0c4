// What executes units: a Group of rank processes, or a fake in tests.

#ifndef ASSAY_WORKER_AGENT_UNIT_RUNNER_H_
#define ASSAY_WORKER_AGENT_UNIT_RUNNER_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "worker/group/group.h"

namespace assay {

// One thread calls Start, then Run and Restart; Cancel may come from any thread.
class UnitRunner {
 public:
  virtual ~UnitRunner() = default;
  virtual absl::Status Start() = 0;  // blocks until units can run; may be called again on failure
  virtual Json Identity() = 0;       // {"replay":{..},"capture":{..}|null}, after Start
  virtual absl::StatusOr<UnitOutcome> Run(const Json& unit, const std::string& out_dir,
                                          const UnitProgress& progress) = 0;
  virtual absl::Status Restart() = 0;  // fresh processes
  virtual void Cancel() = 0;           // as Group::Cancel
  virtual void Shutdown() = 0;         // no process is left afterwards
};

// A Group started with `options`.
std::unique_ptr<UnitRunner> MakeGroupRunner(GroupOptions options);

}  // namespace assay

#endif  // ASSAY_WORKER_AGENT_UNIT_RUNNER_H_
