// The audit log: who did what, one JSON object a line. No secrets: tokens appear by their id.
//
//   {"time","principal","role","token","peer","certificate","method","resource","outcome","reason"}
//
// Written for every call that changes something, whatever came of it, and for every call that was
// refused for who makes it. Each line is one write to a file opened for appending, before the
// answer is given; lines are not synced one by one. A file that was moved away (logrotate) is made
// anew.

#ifndef ASSAY_SERVER_AUTH_AUDIT_H_
#define ASSAY_SERVER_AUTH_AUDIT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

inline constexpr size_t kAuditLineMax = 4096;

class AuditLog {
 public:
  // FILE_* when the file (mode 0600) cannot be made.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path);
  ~AuditLog();
  // Adds "time". A line that cannot be written is counted; the first one is told on standard error.
  void Write(Json fields);
  uint64_t lost() const;

 private:
  explicit AuditLog(std::string path) : path_(std::move(path)) {}
  bool Reopen();

  const std::string path_;
  mutable std::mutex mutex_;
  int fd_ = -1;
  uint64_t inode_ = 0, lost_ = 0;
};

}  // namespace assay

#endif  // ASSAY_SERVER_AUTH_AUDIT_H_
