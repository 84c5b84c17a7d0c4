// Channel errors and blob transfer against a small server in this process.

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "assay/v1/blob.grpc.pb.h"
#include "assay/v1/run.grpc.pb.h"
#include "client/lib/blob_transfer.h"
#include "client/lib/channel.h"
#include "client/lib/client.h"
#include "client/lib/proto_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Keeps blobs in memory; cuts each of the first `cuts` streams after one message.
class FakeBlobService : public v1::BlobService::Service {
 public:
  grpc::Status FindMissing(grpc::ServerContext*, const v1::FindMissingRequest* request,
                           v1::FindMissingResponse* response) override {
    const std::lock_guard lock(mutex);
    for (const std::string& sha256 : request->sha256()) {
      if (blobs.count(sha256) == 0) response->add_missing(sha256);
    }
    return grpc::Status::OK;
  }
  grpc::Status QueryWriteStatus(grpc::ServerContext*, const v1::QueryWriteStatusRequest* request,
                                v1::QueryWriteStatusResponse* response) override {
    const std::lock_guard lock(mutex);
    response->set_complete(blobs.count(request->sha256()) > 0);
    response->set_committed_size(partial[request->sha256()].size());
    return grpc::Status::OK;
  }
  grpc::Status Write(grpc::ServerContext* context, grpc::ServerReader<v1::WriteRequest>* reader,
                     v1::WriteResponse* response) override {
    v1::WriteRequest request;
    std::string sha256;
    while (reader->Read(&request)) {
      const std::lock_guard lock(mutex);
      if (sha256.empty()) sha256 = request.sha256();
      std::string& bytes = partial[sha256];
      if (request.offset() != bytes.size()) {
        return Refuse(context, grpc::StatusCode::FAILED_PRECONDITION, "OFFSET_MISMATCH");
      }
      bytes += request.data();
      received += request.data().size();
      if (request.finish()) {
        if (Sha256Hex(bytes) != sha256) {
          return Refuse(context, grpc::StatusCode::INVALID_ARGUMENT, "DIGEST_MISMATCH");
        }
        response->set_committed_size(bytes.size());
        blobs[sha256] = bytes;
        return grpc::Status::OK;
      }
      if (cuts > 0) {
        --cuts;
        return {grpc::StatusCode::UNAVAILABLE, "cut"};
      }
    }
    return {grpc::StatusCode::UNAVAILABLE, "cut"};
  }
  grpc::Status Read(grpc::ServerContext* context, const v1::ReadRequest* request,
                    grpc::ServerWriter<v1::ReadResponse>* writer) override {
    const std::lock_guard lock(mutex);
    const auto blob = blobs.find(request->sha256());
    if (blob == blobs.end()) return Refuse(context, grpc::StatusCode::NOT_FOUND, "BLOB_MISSING");
    for (uint64_t offset = request->offset(); offset < blob->second.size(); offset += 10) {
      v1::ReadResponse response;
      response.set_offset(offset);
      response.set_size(blob->second.size());
      response.set_data(blob->second.substr(offset, 10));
      sent += response.data().size();
      writer->Write(response);
      if (cuts > 0) {
        --cuts;
        return {grpc::StatusCode::UNAVAILABLE, "cut"};
      }
    }
    return grpc::Status::OK;
  }

  static grpc::Status Refuse(grpc::ServerContext* context, grpc::StatusCode code,
                             const std::string& reason) {
    context->AddTrailingMetadata("assay-reason", reason);
    return {code, "no: " + reason};
  }

  std::mutex mutex;
  std::map<std::string, std::string> blobs, partial;
  std::atomic<int> cuts{0};
  uint64_t received = 0, sent = 0;
};

class WireTest : public ::testing::Test {
 protected:
  WireTest() {
    std::string pattern = ::testing::TempDir() + "wireXXXXXX";
    dir_ = mkdtemp(pattern.data());
    grpc::ServerBuilder builder;
    target_ = "unix:" + JoinPath(dir_, "s");
    builder.AddListeningPort(target_, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    TransferOptions options;
    options.chunk_bytes = 10;
    options.attempts = 3;
    options.retry_first_ms = options.retry_max_ms = 1;
    transfer_ = std::make_unique<BlobTransfer>(MakeChannel(target_), "the server", options);
  }
  ~WireTest() override {
    server_->Shutdown();
    RemoveTree(dir_).IgnoreError();
  }
  std::string File(const std::string& bytes) {
    const std::string path = JoinPath(dir_, "file");
    EXPECT_TRUE(WriteFile(path, bytes).ok());
    return path;
  }
  std::string dir_, target_;
  FakeBlobService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<BlobTransfer> transfer_;
  const std::string bytes_ = "0123456789abcdefghijklmnopqrstuvwxyz";
  const std::string sha256_ = Sha256Hex(bytes_);
};

TEST_F(WireTest, UploadsAndKnowsWhatIsThere) {
  const absl::Status status = transfer_->UploadFile(File(bytes_), sha256_, bytes_.size());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(service_.blobs[sha256_], bytes_);
  ASSERT_TRUE(transfer_->UploadFile(File(bytes_), sha256_, bytes_.size()).ok());
  EXPECT_EQ(service_.received, bytes_.size());  // nothing was sent twice
  const std::string other = Sha256Hex("other");
  EXPECT_THAT(*transfer_->FindMissing({sha256_, other, other}), ElementsAre(other));
}

TEST_F(WireTest, ABrokenUploadGoesOnWhereItStopped) {
  service_.cuts = 3;  // as many as attempts: each moves a byte, so none of them counts
  const absl::Status status = transfer_->UploadFile(File(bytes_), sha256_, bytes_.size());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(service_.received, bytes_.size());
}

TEST_F(WireTest, AnUploadOfAnEarlierProcessIsTakenUp) {
  service_.partial[sha256_] = bytes_.substr(0, 20);
  uint64_t first = 0;
  ASSERT_TRUE(transfer_
                  ->UploadFile(File(bytes_), sha256_, bytes_.size(),
                               [&](uint64_t done, uint64_t) {
                                 if (first == 0) first = done;
                                 return true;
                               })
                  .ok());
  EXPECT_EQ(first, 30u);
  EXPECT_EQ(service_.received, bytes_.size() - 20);
}

TEST_F(WireTest, AChangedFileIsRefusedWithTheServersReason) {
  const absl::Status status =
      transfer_->UploadFile(File(std::string(bytes_.size(), 'x')), sha256_, bytes_.size());
  EXPECT_EQ(ReasonOf(status), "DIGEST_MISMATCH");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
}

TEST_F(WireTest, AShrunkenFileIsNamed) {
  const std::string path = File("short");
  const absl::Status status = transfer_->UploadFile(path, sha256_, bytes_.size());
  EXPECT_EQ(ReasonOf(status), "FILE_CHANGED");
  EXPECT_THAT(MessageOf(status), HasSubstr(path));
}

TEST_F(WireTest, AnUploadCanBeInterrupted) {
  const absl::Status status = transfer_->UploadFile(File(bytes_), sha256_, bytes_.size(),
                                                    [](uint64_t, uint64_t) { return false; });
  EXPECT_EQ(ReasonOf(status), "INTERRUPTED");
  EXPECT_TRUE(absl::IsCancelled(status));
}

TEST_F(WireTest, DownloadsResumeAndAreVerified) {
  service_.blobs[sha256_] = bytes_;
  service_.cuts = 3;
  const std::string path = JoinPath(dir_, "down");
  const absl::Status status = transfer_->Download(sha256_, path);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(*ReadFile(path, 1000), bytes_);
  EXPECT_EQ(service_.sent, bytes_.size());
}

TEST_F(WireTest, WrongBytesAreNeverLeftBehind) {
  service_.blobs[sha256_] = std::string(bytes_.size(), 'x');
  const std::string path = JoinPath(dir_, "down");
  EXPECT_EQ(ReasonOf(transfer_->Download(sha256_, path)), "DOWNLOAD_CORRUPT");
  EXPECT_THAT(*ListDirectory(dir_), ElementsAre("s"));
}

TEST_F(WireTest, AMissingBlobKeepsItsReason) {
  EXPECT_EQ(ReasonOf(transfer_->ReadBytes(sha256_, 100).status()), "BLOB_MISSING");
}

TEST_F(WireTest, MemoryIsBounded) {
  service_.blobs[sha256_] = bytes_;
  EXPECT_EQ(ReasonOf(transfer_->ReadBytes(sha256_, 35).status()), "FILE_TOO_LARGE");
  EXPECT_EQ(*transfer_->ReadBytes(sha256_, 36), bytes_);
}

TEST_F(WireTest, AServerThatIsGoneIsExplained) {
  BlobTransfer nobody(MakeChannel("unix:" + JoinPath(dir_, "none")), "unix:none",
                      {.attempts = 1, .retry_first_ms = 1});
  const absl::Status status = nobody.FindMissing({sha256_}).status();
  EXPECT_EQ(ReasonOf(status), "SERVER_UNREACHABLE");
  EXPECT_THAT(MessageOf(status), HasSubstr("unix:none"));
}

TEST_F(WireTest, AServiceThatIsNotThereIsExplained) {
  grpc::ServerBuilder builder;
  const std::string target = "unix:" + JoinPath(dir_, "t");
  builder.AddListeningPort(target, grpc::InsecureServerCredentials());
  v1::BlobService::Service unimplemented;
  builder.RegisterService(&unimplemented);
  const auto server = builder.BuildAndStart();
  BlobTransfer other(MakeChannel(target), target);
  EXPECT_EQ(ReasonOf(other.FindMissing({sha256_}).status()), "SERVER_TOO_OLD");
  server->Shutdown();
}

// A command starts its coordinator and calls it at once, before anybody listens. The coordinator
// here comes after the first attempt; sleeping between attempts would need a hundred of them.
TEST_F(WireTest, ACoordinatorThatComesLaterIsFoundWithinFewAttempts) {
  const std::string address = "unix:" + JoinPath(dir_, "later");
  v1::BlobService::Service another;
  std::unique_ptr<grpc::Server> server;
  int attempts = 0;
  const auto client = Client::Connect(address);
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status status = (*client)->WaitReady(120'000, [&]() -> absl::Status {
    if (++attempts > 30) return InternalError("NOT_FOUND_YET", "thirty attempts");
    if (server == nullptr) {
      grpc::ServerBuilder builder;
      builder.AddListeningPort(address, grpc::InsecureServerCredentials());
      builder.RegisterService(&another);
      server = builder.BuildAndStart();
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(ReasonOf(status), "SERVER_TOO_OLD");  // an answer: this server knows no runs
  server->Shutdown();
}

// A coordinator that too many watch already; its run ends when it has been asked for twice.
class CrowdedRunService : public v1::RunService::Service {
 public:
  grpc::Status WatchRun(grpc::ServerContext* context, const v1::WatchRunRequest*,
                        grpc::ServerWriter<v1::RunEvent>*) override {
    context->AddTrailingMetadata("assay-reason", "TOO_MANY_WATCHERS");
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "no: TOO_MANY_WATCHERS"};
  }
  grpc::Status GetRun(grpc::ServerContext*, const v1::GetRunRequest* request,
                      v1::Run* run) override {
    run->set_name(request->name());
    run->set_state(++asked < 2 ? v1::Run::RUNNING : v1::Run::SUCCEEDED);
    return grpc::Status::OK;
  }
  std::atomic<int> asked{0};
};

TEST_F(WireTest, ARunThatTooManyWatchIsAskedForInstead) {
  grpc::ServerBuilder builder;
  const std::string address = "unix:" + JoinPath(dir_, "crowd");
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  CrowdedRunService crowded;
  builder.RegisterService(&crowded);
  const auto server = builder.BuildAndStart();
  const auto client = Client::Connect(address);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto run = (*client)->WatchRun(
      "runs/1", [](const Json&) {}, nullptr);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)["state"], "SUCCEEDED");
  EXPECT_EQ(crowded.asked, 2);
  server->Shutdown();
}

TEST(AddressTest, Forms) {
  EXPECT_EQ(*ParseServerAddress("host:7400"), "dns:///host:7400");
  EXPECT_EQ(*ParseServerAddress("[::1]:7400"), "dns:///[::1]:7400");
  EXPECT_EQ(*ParseServerAddress("unix:/run/a"), "unix:/run/a");
  EXPECT_EQ(*ParseServerAddress("/run/a"), "unix:/run/a");
  for (const char* text : {"", "host", "host:", "host:0", "host:65536", "::1:7400", ":7400",
                           "http://host:80", "host:7a"}) {
    EXPECT_EQ(ReasonOf(ParseServerAddress(text).status()), "ADDRESS_INVALID") << text;
  }
}

TEST(ProtoJsonTest, NumbersNamesAndEmbeddedDocuments) {
  v1::Run run;
  run.set_name("runs/x");
  run.set_state(v1::Run::SEALING);
  run.set_units_total(9007199254740993);
  run.set_kernel_identity_json(R"({"isa":"avx512"})");
  run.add_candidates()->set_label("int4");
  const Json json = ProtoJson(run);
  EXPECT_EQ(json["name"], "runs/x");
  EXPECT_EQ(json["state"], "SEALING");
  EXPECT_EQ(json["units_total"].get<int64_t>(), 9007199254740993);
  EXPECT_EQ(json["kernel_identity"]["isa"], "avx512");
  EXPECT_FALSE(json.contains("kernel_identity_json"));
  EXPECT_EQ(json["candidates"][0]["label"], "int4");
  EXPECT_TRUE(json["error"].is_null());
  EXPECT_TRUE(json["spec"].is_null());
  v1::ErrorInfo error;
  error.set_code("FAILED_PRECONDITION");
  error.set_reason("MODEL_NOT_HERE");
  error.set_message("nowhere");
  const absl::Status status = StatusFromErrorJson(ProtoJson(error));
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(ReasonOf(status), "MODEL_NOT_HERE");
  EXPECT_TRUE(StatusFromErrorJson(nullptr).ok());
}

}  // namespace
}  // namespace assay
