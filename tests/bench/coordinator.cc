#include "tests/bench/coordinator.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "assay/v1/blob.grpc.pb.h"
#include "storage/base/files.h"
#include "tests/bench/bench_util.h"

namespace assay::bench {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

}  // namespace

Coordinator::Coordinator(const std::string& program, const std::string& dir,
                         const std::function<void(const std::string&)>& prepare)
    : dir_(dir + "/coordinatorXXXXXX") {
  if (::mkdtemp(dir_.data()) == nullptr) Die("cannot make " + dir_);
  const std::string ready = dir_ + "/ready", data = dir_ + "/data";
  pid_ = ::fork();
  if (pid_ == 0) {
    if (prepare) prepare(data);
    const int log = ::open((dir_ + "/log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ::dup2(log, 2);
    ::execl(program.c_str(), program.c_str(), "--data", data.c_str(), "--listen", address().c_str(),
            "--ready-file", ready.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 3000 && !FileExists(ready); ++i) ::usleep(10'000);
  if (!FileExists(ready)) Die("assayd does not start: " + program);
}

Coordinator::~Coordinator() {
  if (pid_ > 0) {
    Terminate();
    WaitForExit();
  }
  static_cast<void>(RemoveTree(dir_));
}

std::shared_ptr<grpc::Channel> Coordinator::Connect() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments);
}

double Coordinator::ProcessorSeconds() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::string word;
  uint64_t user = 0, system = 0;
  constexpr int kFieldsBefore = 11;  // of utime, after the name: proc(5)
  for (int i = 0; i < kFieldsBefore; ++i) rest >> word;
  rest >> user >> system;
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void Coordinator::Terminate() { ::kill(pid_, SIGTERM); }

int Coordinator::WaitForExit() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

uint64_t Coordinator::Status(const std::string& field) const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  std::string word;
  uint64_t kib = 0;
  while (status >> word) {
    if (word == field) status >> kib;
  }
  return kib << 10;
}

void UploadBlob(const std::shared_ptr<grpc::Channel>& channel, const std::string& bytes,
                const std::string& sha256) {
  const auto stub = v1::BlobService::NewStub(channel);
  grpc::ClientContext context;
  v1::WriteResponse response;
  const auto writer = stub->Write(&context, &response);
  v1::WriteRequest request;
  request.set_sha256(sha256);
  request.set_size(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += kChunk) {
    request.set_offset(at);
    request.set_data(bytes.substr(at, kChunk));
    request.set_finish(at + kChunk >= bytes.size());
    if (!writer->Write(request)) break;
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) Die("an upload failed: " + status.error_message());
}

}  // namespace assay::bench
