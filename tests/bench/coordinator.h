// A real assayd for the benches: started in a folder of its own, watched, ended.

#ifndef ASSAY_TESTS_BENCH_COORDINATOR_H_
#define ASSAY_TESTS_BENCH_COORDINATOR_H_

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace assay::bench {

// Ends the program when assayd does not start. Ended (SIGTERM) and removed with this object.
class Coordinator {
 public:
  // `program`: path of assayd. `dir`: where its folder is made. `prepare`: called in the child,
  // with the data folder, before assayd takes its place; may be empty.
  Coordinator(const std::string& program, const std::string& dir,
              const std::function<void(const std::string&)>& prepare = {});
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  std::string address() const { return "unix:" + dir_ + "/s"; }
  const std::string& dir() const { return dir_; }
  // A connection that shares nothing with other channels.
  std::shared_ptr<grpc::Channel> Connect() const;

  uint64_t PeakBytes() const { return Status("VmHWM:"); }  // largest resident set so far
  uint64_t ResidentBytes() const { return Status("VmRSS:"); }
  double ProcessorSeconds() const;  // of all its threads

  void Terminate();   // SIGTERM
  int WaitForExit();  // its exit status; -1 when a signal ended it. Once, after Terminate

 private:
  uint64_t Status(const std::string& field) const;

  std::string dir_;
  pid_t pid_ = -1;
};

// Sends `bytes` as a blob in pieces of 1 MiB; ends the program when that fails.
void UploadBlob(const std::shared_ptr<grpc::Channel>& channel, const std::string& bytes,
                const std::string& sha256);

}  // namespace assay::bench

#endif  // ASSAY_TESTS_BENCH_COORDINATOR_H_
