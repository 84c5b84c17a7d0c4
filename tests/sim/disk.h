// A disk with a cache that a crash loses, and with faults.
//
// What a process wrote and did not sync may be lost, kept, cut short, or kept in pieces out of
// order. A sync may lie; a bit of what is stable may turn; the disk may be full. A crash can be
// planned to happen inside any operation.

#ifndef ASSAY_TESTS_SIM_DISK_H_
#define ASSAY_TESTS_SIM_DISK_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/random.h"

namespace assay::sim {

class Disk {
 public:
  explicit Disk(Random* random) : random_(random) {}

  // DISK_FULL after a part was written; SIM_CRASH inside a planned crash, and from then on.
  absl::Status Write(const std::string& file, uint64_t at, std::string_view bytes);
  absl::Status Sync(const std::string& file);
  void Truncate(const std::string& file, uint64_t size);
  // As a process sees it: cache and stable bytes.
  const std::string& Read(const std::string& file) { return files_[file].seen; }

  // The process, and with it the cache, is gone.
  void Crash();
  // The `operations`-th write or sync from now stops half-way.
  void PlanCrash(uint64_t operations) { crash_in_ = operations; }
  bool crash_planned() const { return crash_in_ != 0; }
  void SetFull(bool full) { full_ = full; }
  bool full() const { return full_; }
  // The next sync of `file` does nothing and says that it did.
  void LieOnce(const std::string& file) { files_[file].lie = true; }
  // Turns one stable bit; false when the file is empty. Only while no process runs.
  bool FlipBit(const std::string& file);
  // Whether stable bytes are not what was promised: a lie came true, or a bit turned.
  bool damaged() const;
  // What is stable counts as what was promised from now on.
  void Accept();
  // Somebody restores a backup: what was promised is there again.
  void Restore();

 private:
  struct Pending {
    uint64_t at = 0;
    std::string bytes;
  };
  struct File {
    std::string seen, stable;
    std::string promised;  // what syncs said is stable, while that differs
    std::vector<Pending> pending;
    bool lie = false, lied = false, damaged = false;
  };
  bool CrashesNow();
  void KeepSome(File* file);

  Random* random_;
  std::map<std::string, File> files_;
  uint64_t crash_in_ = 0;
  bool crashed_ = false, full_ = false;
};

}  // namespace assay::sim

#endif  // ASSAY_TESTS_SIM_DISK_H_
