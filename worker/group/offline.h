// What captures and replays without a server share.

#ifndef ASSAY_WORKER_GROUP_OFFLINE_H_
#define ASSAY_WORKER_GROUP_OFFLINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/base/out_folder.h"
#include "worker/group/group.h"

namespace assay {

// Called on the calling thread. Any member may be empty.
struct OfflineHooks {
  // A phase's progress: name, plural noun of what is counted, done (kept work included), total.
  std::function<void(std::string_view phase, std::string_view unit, uint64_t done, uint64_t total)>
      progress;
  std::function<void(std::string_view line)> note;  // a sentence for people
  std::function<bool()> interrupted;                // polled; true ends the work with CANCELLED
};

// The processes that do the work.
struct OfflineRanks {
  int tp = 1;                // ranks: 1, 2, 4 or 8
  int threads = 0;           // in all; 0 = CPUs of the affinity mask
  std::string rank_program;  // "" = assay-rank beside this program
};

// A folder ".assay-work" inside an output folder, held by one process at a time and removed at the
// end, together with the output folder where it was made for it and holds nothing. Everything in it
// can be made again.
class WorkFolder {
 public:
  // Makes `out` too. OUT_BUSY when another process works there.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Lock(const std::string& out);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  WorkFolder(std::string path, int fd, std::unique_ptr<MadeFolders> made)
      : made_(std::move(made)), path_(std::move(path)), fd_(fd) {}
  const std::unique_ptr<MadeFolders> made_;  // goes last
  const std::string path_;
  const int fd_;
};

inline constexpr std::string_view kWorkFolderName = ".assay-work";

// Starts the group for offline work in `work`. `capture` as GroupOptions::capture.
absl::StatusOr<std::unique_ptr<Group>> StartOfflineGroup(const OfflineRanks& ranks, bool capture,
                                                         const std::string& work,
                                                         const OfflineHooks& hooks);

}  // namespace assay

#endif  // ASSAY_WORKER_GROUP_OFFLINE_H_
