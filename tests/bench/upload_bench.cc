// Uploads over gRPC to a real assayd on a Unix socket: bytes per second beside this disk's own, and
// the memory of a coordinator with many uploaders beside that with few.
//
//   assay_upload_bench rate|memory [--bin DIR] [--dir DIR] [--mib N] [--slow-us N] [--preload LIB]

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>

#include "assay/v1/blob.grpc.pb.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "tests/bench/bench_util.h"

namespace assay::bench {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

// A coordinator in a folder of its own, ended and removed with this object.
class Coordinator {
 public:
  explicit Coordinator(const Flags& flags) : dir_(flags.at("--dir") + "/uploadXXXXXX") {
    if (::mkdtemp(dir_.data()) == nullptr) Die("cannot make " + dir_);
    const std::string program = flags.at("--bin") + "/assayd", ready = dir_ + "/ready";
    pid_ = ::fork();
    if (pid_ == 0) {
      if (!flags.at("--preload").empty() && Number(flags, "--slow-us") > 0) {
        ::setenv("LD_PRELOAD", flags.at("--preload").c_str(), 1);
        ::setenv("SLOW_BELOW", (dir_ + "/data/blobs").c_str(), 1);
        ::setenv("SLOW_US", flags.at("--slow-us").c_str(), 1);
      }
      const int log = ::open((dir_ + "/log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
      ::dup2(log, 2);
      ::execl(program.c_str(), program.c_str(), "--data", (dir_ + "/data").c_str(), "--listen",
              socket().c_str(), "--ready-file", ready.c_str(), nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 3000 && !FileExists(ready); ++i) ::usleep(10'000);
    if (!FileExists(ready)) Die("assayd does not start: " + program);
  }
  ~Coordinator() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    static_cast<void>(RemoveTree(dir_));
  }
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  std::string socket() const { return "unix:" + dir_ + "/s"; }
  const std::string& dir() const { return dir_; }
  uint64_t PeakBytes() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    std::string word;
    uint64_t kib = 0;
    while (status >> word) {
      if (word == "VmHWM:") status >> kib;
    }
    return kib << 10;
  }

 private:
  std::string dir_;
  pid_t pid_ = -1;
};

// Bytes that no two uploads share, cheap to make.
std::string Content(uint64_t seed, uint64_t mib) {
  std::string bytes(mib * kChunk, '\0');
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    std::copy_n(reinterpret_cast<const char*>(&x), 8, bytes.data() + i);
  }
  return bytes;
}

void UploadTo(const std::string& address, const std::string& bytes, const std::string& sha256) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = v1::BlobService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
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

void WriteAndSync(const std::string& path, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (size_t at = 0; at < bytes.size(); at += kChunk) {
    if (::write(fd, bytes.data() + at, kChunk) != static_cast<ssize_t>(kChunk))
      Die("cannot write " + path);
  }
  if (::fsync(fd) != 0) Die("cannot sync " + path);
  ::close(fd);
  ::unlink(path.c_str());
}

// One uploader, one file after the other, with the same files written and synced.
Json Rate(const Flags& flags) {
  const uint64_t mib = Number(flags, "--mib");
  const Coordinator coordinator(flags);
  Samples upload, disk;
  for (uint64_t i = 0; i < 5; ++i) {
    const std::string bytes = Content(i, mib), sha256 = Sha256Hex(bytes);
    TakeInTurn(
        &disk, [&] { WriteAndSync(coordinator.dir() + "/plain", bytes); }, &upload,
        [&] { UploadTo(coordinator.socket(), bytes, sha256); });
  }
  const double gib = static_cast<double>(mib) / 1024;
  return {{"ratio", Ratio(disk, upload)},
          {"upload_gib_per_s", gib / upload.median()},
          {"disk_gib_per_s", gib / disk.median()}};
}

// Peak memory while `uploaders` send a file each; `Memory` compares 64 with 4.
uint64_t PeakWith(const Flags& flags, uint64_t uploaders) {
  const Coordinator coordinator(flags);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < uploaders; ++i) {
    threads.emplace_back([&, i] {
      const std::string bytes = Content(i, Number(flags, "--mib"));
      UploadTo(coordinator.socket(), bytes, Sha256Hex(bytes));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return coordinator.PeakBytes();
}

Json Memory(const Flags& flags) {
  constexpr uint64_t kFew = 4, kMany = 64;
  const uint64_t few = PeakWith(flags, kFew), many = PeakWith(flags, kMany);
  const uint64_t per_upload = (std::max(many, few) - few) / (kMany - kFew);
  return {{"ratio", {{"wall", static_cast<double>(per_upload) / (4.0 * kChunk)}}},
          {"peak_mib_of_4", few >> 20},
          {"peak_mib_of_64", many >> 20},
          {"bytes_per_upload", per_upload}};
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  using namespace assay::bench;
  const std::string row = argc > 1 ? argv[1] : "";
  Flags flags = {
      {"--bin", "."}, {"--dir", "/tmp"}, {"--mib", "64"}, {"--slow-us", "0"}, {"--preload", ""}};
  if (row != "rate" && row != "memory") Die("usage: assay_upload_bench rate|memory [--NAME VALUE]");
  ReadFlags(argc, argv, 2, &flags);
  std::puts((row == "rate" ? Rate(flags) : Memory(flags)).dump().c_str());
  return 0;
}
