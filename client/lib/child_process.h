// A child process that ends with its parent.

#ifndef ASSAY_CLIENT_LIB_CHILD_PROCESS_H_
#define ASSAY_CLIENT_LIB_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace assay {

// Owns the process: the destructor kills and reaps it. Not thread-safe.
class ChildProcess {
 public:
  // Starts `program` with `arguments` (without the program's name) plus "--parent-fd 3", where 3 is
  // the read end of a pipe whose write end only this process has: the child sees its end however
  // this process dies. Standard input is /dev/null, output and errors are appended to `log_path`.
  // The child has its own process group (Ctrl-C on the terminal does not reach it) and inherits no
  // other descriptor. PROGRAM_MISSING, PROGRAM_NOT_STARTED.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::string& program,
                                                             std::vector<std::string> arguments,
                                                             const std::string& log_path);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool Alive();

  // SIGTERM, at most `grace_ms` of waiting, then SIGKILL. Idempotent.
  void Stop(int64_t grace_ms);

  // What became of it and the last lines of its log: "assayd ended with exit code 2; last lines of
  // /path: ...".
  std::string Obituary();

 private:
  ChildProcess(std::string program, std::string log_path, pid_t pid, int lifeline)
      : program_(std::move(program)),
        log_path_(std::move(log_path)),
        pid_(pid),
        lifeline_(lifeline) {}
  bool Reap(int options);

  const std::string program_, log_path_;
  const pid_t pid_;
  const int lifeline_;  // write end of the pipe
  bool reaped_ = false;
  int wait_status_ = 0;
};

// The last `lines` lines of a text file, at most 4 KiB; "" when it cannot be read.
std::string TailOf(const std::string& path, int lines);

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_CHILD_PROCESS_H_
