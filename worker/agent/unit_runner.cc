#include "worker/agent/unit_runner.h"

#include "storage/base/status.h"

namespace assay {
namespace {

class GroupRunner : public UnitRunner {
 public:
  explicit GroupRunner(GroupOptions options) : options_(std::move(options)) {}

  absl::Status Start() override {
    absl::StatusOr<std::unique_ptr<Group>> group = Group::Start(options_);
    if (!group.ok()) return group.status();
    const std::lock_guard lock(mutex_);
    group_ = *std::move(group);
    return absl::OkStatus();
  }
  Json Identity() override { return group_->identity(); }
  absl::StatusOr<UnitOutcome> Run(const Json& unit, const std::string& out_dir,
                                  const UnitProgress& progress) override {
    return group_->Run(unit, out_dir, progress);
  }
  absl::Status Restart() override { return group_->Restart(); }
  void Cancel() override {
    const std::lock_guard lock(mutex_);
    if (group_ != nullptr) group_->Cancel();
  }
  void Shutdown() override {
    if (group_ != nullptr) group_->Shutdown();
  }

 private:
  const GroupOptions options_;
  std::mutex mutex_;  // group_ against Cancel; only set once
  std::unique_ptr<Group> group_;
};

}  // namespace

std::unique_ptr<UnitRunner> MakeGroupRunner(GroupOptions options) {
  return std::make_unique<GroupRunner>(std::move(options));
}

}  // namespace assay
