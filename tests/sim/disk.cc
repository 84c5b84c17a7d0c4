#include "tests/sim/disk.h"

#include <algorithm>

#include "storage/base/status.h"

namespace assay::sim {
namespace {

constexpr size_t kSectorBytes = 64;  // small, so that small records are torn as well

void Put(std::string* file, uint64_t at, std::string_view bytes) {
  if (file->size() < at + bytes.size()) file->resize(at + bytes.size(), '\0');
  file->replace(at, bytes.size(), bytes);
}

absl::Status Gone() { return UnavailableError("SIM_CRASH", "the process is gone"); }

}  // namespace

bool Disk::CrashesNow() {
  if (crash_in_ != 0 && --crash_in_ == 0) crashed_ = true;
  return crashed_;
}

absl::Status Disk::Write(const std::string& file, uint64_t at, std::string_view bytes) {
  if (crashed_) return Gone();
  File& f = files_[file];
  const bool crashes = CrashesNow();
  if (full_ || crashes) bytes = bytes.substr(0, random_->Below(bytes.size() + 1));
  Put(&f.seen, at, bytes);
  f.pending.push_back({at, std::string(bytes)});
  if (crashes) return Gone();
  if (full_) return ExhaustedError("DISK_FULL", "writing " + file + ": no space left");
  return absl::OkStatus();
}

absl::Status Disk::Sync(const std::string& file) {
  if (crashed_ || CrashesNow()) return Gone();
  File& f = files_[file];
  if (f.lie) {
    f.lie = false;
    f.lied = true;
    f.promised = f.seen;
    return absl::OkStatus();
  }
  // What a lie left behind is written now like everything else.
  f.lied = false;
  for (const Pending& p : f.pending) Put(&f.stable, p.at, p.bytes);
  f.pending.clear();
  return absl::OkStatus();
}

void Disk::Truncate(const std::string& file, uint64_t size) {
  File& f = files_[file];
  f.seen.resize(size);
  f.stable.resize(size);
  f.pending.clear();
}

void Disk::KeepSome(File* file) {
  const size_t how = random_->Below(4);
  if (how == 0) return;  // nothing reached the disk
  for (size_t i = 0; i < file->pending.size(); ++i) {
    const Pending& p = file->pending[i];
    if (how == 1) {
      Put(&file->stable, p.at, p.bytes);
    } else if (how == 2) {  // in order, the last one cut
      const bool last = i + 1 == file->pending.size();
      Put(&file->stable, p.at,
          std::string_view(p.bytes).substr(
              0, last ? random_->Below(p.bytes.size() + 1) : p.bytes.size()));
    } else {  // sector by sector, in any order
      for (size_t at = 0; at < p.bytes.size(); at += kSectorBytes) {
        if (random_->OneIn(2))
          Put(&file->stable, p.at + at, std::string_view(p.bytes).substr(at, kSectorBytes));
      }
    }
  }
}

void Disk::Crash() {
  for (auto& [name, f] : files_) {
    KeepSome(&f);
    f.pending.clear();
    f.lie = false;
    if (f.lied) {
      f.lied = false;
      // Unsynced bytes after the promised ones may have survived; they are nobody's concern.
      if (f.stable.compare(0, f.promised.size(), f.promised) != 0) f.damaged = true;
    }
    f.seen = f.stable;
  }
  crashed_ = false;
  crash_in_ = 0;
}

bool Disk::FlipBit(const std::string& file) {
  File& f = files_[file];
  if (f.stable.empty() || f.damaged) return false;
  f.promised = f.stable;
  f.damaged = true;
  const size_t at = random_->Below(f.stable.size());
  f.stable[at] = static_cast<char>(f.stable[at] ^ (1 << random_->Below(8)));
  f.seen = f.stable;
  return true;
}

bool Disk::damaged() const {
  return std::any_of(files_.begin(), files_.end(), [](const auto& f) { return f.second.damaged; });
}

void Disk::Accept() {
  for (auto& [name, f] : files_) f.damaged = false;
}

void Disk::Restore() {
  for (auto& [name, f] : files_) {
    if (f.damaged) f.seen = f.stable = f.promised;
    f.damaged = false;
  }
}

}  // namespace assay::sim
