// Uploads over gRPC to a real assayd on a Unix socket: bytes per second beside this disk's own, and
// the memory of a coordinator with many uploaders beside that with few.
//
//   assay_upload_bench rate|memory [--bin DIR] [--dir DIR] [--mib N] [--slow-us N] [--preload LIB]

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "assay/v1/blob.grpc.pb.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "tests/bench/bench_util.h"
#include "tests/bench/coordinator.h"

namespace assay::bench {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

// The coordinator of `flags`: with --preload and --slow-us on a disk that slow.
class UploadCoordinator : public Coordinator {
 public:
  explicit UploadCoordinator(const Flags& flags)
      : Coordinator(flags.at("--bin") + "/assayd", flags.at("--dir"),
                    [&flags](const std::string& data) {
                      if (flags.at("--preload").empty() || Number(flags, "--slow-us") == 0) return;
                      ::setenv("LD_PRELOAD", flags.at("--preload").c_str(), 1);
                      ::setenv("SLOW_BELOW", (data + "/blobs").c_str(), 1);
                      ::setenv("SLOW_US", flags.at("--slow-us").c_str(), 1);
                    }) {}
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

// Takes the same stream and drops it: what gRPC alone can carry.
class Sink : public v1::BlobService::Service {
 public:
  grpc::Status Write(grpc::ServerContext*, grpc::ServerReader<v1::WriteRequest>* reader,
                     v1::WriteResponse*) override {
    v1::WriteRequest request;
    while (reader->Read(&request)) {
    }
    return grpc::Status::OK;
  }
};

// A process of its own that serves a Sink, as the coordinator is one; ended with this object.
class SinkProcess {
 public:
  explicit SinkProcess(const std::string& path) : path_(path), pid_(::fork()) {
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also when the bench ends early
      Sink sink;
      grpc::ServerBuilder builder;
      builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
      builder.RegisterService(&sink);
      const auto server = builder.BuildAndStart();
      if (server) server->Wait();
      ::_exit(1);
    }
  }
  ~SinkProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  SinkProcess(const SinkProcess&) = delete;
  SinkProcess& operator=(const SinkProcess&) = delete;
  std::shared_ptr<grpc::Channel> Connect() const {
    auto channel = grpc::CreateChannel("unix:" + path_, grpc::InsecureChannelCredentials());
    const auto limit = std::chrono::system_clock::now() + std::chrono::seconds(10);
    if (!channel->WaitForConnected(limit)) Die("the plain gRPC server does not start");
    return channel;
  }

 private:
  const std::string path_;
  const pid_t pid_;
};

// One uploader, one file after the other, with the same files written and synced.
Json Rate(const Flags& flags) {
  const uint64_t mib = Number(flags, "--mib");
  std::string folder = flags.at("--dir") + "/sinkXXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) Die("cannot make " + folder);
  const SinkProcess sink(folder + "/s");  // before this process uses gRPC
  const UploadCoordinator coordinator(flags);
  const auto plain = sink.Connect();
  Samples upload, disk, stream;
  for (uint64_t i = 0; i < 5; ++i) {
    const std::string bytes = Content(i, mib), sha256 = Sha256Hex(bytes);
    stream.Take([&] { UploadBlob(plain, bytes, sha256); });
    TakeInTurn(
        &disk, [&] { WriteAndSync(coordinator.dir() + "/plain", bytes); }, &upload,
        [&] { UploadBlob(coordinator.Connect(), bytes, sha256); });
  }
  static_cast<void>(RemoveTree(folder));
  const double gib = static_cast<double>(mib) / 1024;
  return {{"ratio", Ratio(disk.median() > stream.median() ? disk : stream, upload)},
          {"upload_gib_per_s", gib / upload.median()},
          {"disk_gib_per_s", gib / disk.median()},
          {"plain_grpc_gib_per_s", gib / stream.median()}};
}

// Peak memory while `uploaders` send a file each; `Memory` compares 64 with 4.
uint64_t PeakWith(const Flags& flags, uint64_t uploaders) {
  const UploadCoordinator coordinator(flags);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < uploaders; ++i) {
    threads.emplace_back([&, i] {
      const std::string bytes = Content(i, Number(flags, "--mib"));
      UploadBlob(coordinator.Connect(), bytes, Sha256Hex(bytes));
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
