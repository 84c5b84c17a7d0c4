// What a test program asks the file system to make durable, in order. Linking
// sync_trace_test_util.cc replaces fsync and rename in that program by ones that write down the
// call and then do it: a crash of the machine cannot be tried in a test, the order of these calls
// can.

#ifndef ASSAY_STORAGE_BASE_SYNC_TRACE_TEST_UTIL_H_
#define ASSAY_STORAGE_BASE_SYNC_TRACE_TEST_UTIL_H_

#include <string>
#include <vector>

namespace assay {

// Collects the calls of this process from construction to destruction; one at a time, not
// thread-safe. Entries: "sync PATH" and "rename PATH -> PATH", absolute paths as the kernel knows
// them (sync) or as given (rename).
class SyncTrace {
 public:
  SyncTrace();
  ~SyncTrace();
  SyncTrace(const SyncTrace&) = delete;
  SyncTrace& operator=(const SyncTrace&) = delete;
  const std::vector<std::string>& calls() const { return calls_; }

 private:
  friend void NoteSyncCall(const std::string& call);
  std::vector<std::string> calls_;
};

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_SYNC_TRACE_TEST_UTIL_H_
