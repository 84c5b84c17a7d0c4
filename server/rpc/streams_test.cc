// Every way in which an upload can go wrong, over a socket: its named error, and what is there to
// go on from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>

#include "assay/v1/blob.grpc.pb.h"
#include "assay/v1/capture.grpc.pb.h"
#include "server/rpc/limits.h"
#include "server/rpc/security_test_util.h"
#include "storage/base/digest.h"

namespace assay::rpc {
namespace {

std::string ReasonIn(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto it = trailers.find("assay-reason");
  return it == trailers.end() ? "" : std::string(it->second.data(), it->second.size());
}

// One upload of `bytes`, a message at a time.
class Upload {
 public:
  Upload(TestServer& server, std::string bytes, std::optional<std::string> sha256 = {})
      : bytes_(std::move(bytes)),
        sha256_(sha256.value_or(Sha256Hex(bytes_))),
        stub_(v1::BlobService::NewStub(server.channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    writer_ = stub_->Write(&context_, &response_);
  }
  ~Upload() {
    if (!finished_) context_.TryCancel();
    if (!finished_) writer_->Finish();
  }

  // Bytes [from, to) at `offset`; false when the server has ended the call.
  bool Send(size_t from, size_t to, bool finish = false, std::optional<uint64_t> offset = {}) {
    v1::WriteRequest request;
    request.set_sha256(sha256_);
    request.set_size(bytes_.size());
    request.set_offset(offset.value_or(from));
    request.set_data(bytes_.substr(from, to - from));
    request.set_finish(finish);
    return writer_->Write(request);
  }
  bool SendRaw(const v1::WriteRequest& request) { return writer_->Write(request); }
  // The reason of the answer. The stream stays open on this side: the server must end it.
  std::string Answer() {
    finished_ = true;
    status_ = writer_->Finish();
    return status_.ok() ? "OK" : ReasonIn(context_);
  }
  std::string End() {
    writer_->WritesDone();
    return Answer();
  }
  const std::string& sha256() const { return sha256_; }
  grpc::StatusCode code() const { return status_.error_code(); }

 private:
  const std::string bytes_, sha256_;
  std::unique_ptr<v1::BlobService::Stub> stub_;
  grpc::ClientContext context_;
  v1::WriteResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::WriteRequest>> writer_;
  grpc::Status status_;
  bool finished_ = false;
};

v1::QueryWriteStatusResponse StatusOf(TestServer& server, const std::string& sha256) {
  const auto stub = v1::BlobService::NewStub(server.channel);
  grpc::ClientContext context;
  v1::QueryWriteStatusRequest request;
  request.set_sha256(sha256);
  v1::QueryWriteStatusResponse response;
  EXPECT_TRUE(stub->QueryWriteStatus(&context, request, &response).ok());
  return response;
}

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

ServerOptions Impatient() {
  ServerOptions options;
  options.limits.upload_idle_ms = 1'500;
  return options;
}

TEST(Streams, AnUploadThatIsCutAnywhereGoesOnFromWhatIsThere) {
  TestServer server(false);
  const std::string bytes = Bytes(5'000);
  const std::string sha256 = Sha256Hex(bytes);
  size_t there = 0;
  for (const size_t cut : {size_t{1}, size_t{2}, size_t{777}, size_t{4'096}, size_t{5'000}}) {
    Upload upload(server, bytes);
    EXPECT_TRUE(upload.Send(there, cut));
    EXPECT_EQ(upload.End(), "STREAM_CUT");
    const auto status = StatusOf(server, sha256);
    EXPECT_EQ(status.committed_size(), cut);
    EXPECT_FALSE(status.complete());
    there = status.committed_size();
  }
  Upload last(server, bytes);
  last.Send(5'000, 5'000, true);
  EXPECT_EQ(last.Answer(), "OK");
  EXPECT_TRUE(StatusOf(server, sha256).complete());
  EXPECT_EQ(GetBlob(server.engine->blobs(), sha256, 1 << 20).value(), bytes);
}

TEST(Streams, CorruptedBytesAreDroppedAndCanBeSentAnew) {
  TestServer server(false);
  const std::string good = Bytes(3'000);
  std::string bad = good;
  bad[1'500] = static_cast<char>(bad[1'500] ^ 1);
  Upload corrupted(server, bad, Sha256Hex(good));
  corrupted.Send(0, 1'000);
  corrupted.Send(1'000, 3'000, true);
  EXPECT_EQ(corrupted.Answer(), "DIGEST_MISMATCH");
  EXPECT_EQ(StatusOf(server, Sha256Hex(good)).committed_size(), 0u);
  Upload again(server, good);
  again.Send(0, 3'000, true);
  EXPECT_EQ(again.Answer(), "OK");
}

TEST(Streams, WrongOffsetsSizesAndChunksHaveTheirNames) {
  TestServer server(false);
  const std::string bytes = Bytes(3'000);
  const auto answer = [&](const std::function<void(Upload&)>& send) {
    Upload upload(server, bytes);
    send(upload);
    return upload.Answer();
  };
  EXPECT_EQ(answer([](Upload& u) { u.Send(0, 10, false, 5); }), "OFFSET_MISMATCH");
  EXPECT_EQ(answer([](Upload& u) {
              u.Send(0, 10);
              u.Send(0, 10);  // a message twice
            }),
            "OFFSET_MISMATCH");
  EXPECT_EQ(StatusOf(server, Sha256Hex(bytes)).committed_size(), 10u);
  EXPECT_EQ(answer([](Upload& u) { u.Send(10, 20, true); }), "BLOB_SIZE");  // too few
  v1::WriteRequest more;
  more.set_sha256(Sha256Hex(bytes));
  more.set_size(bytes.size());
  more.set_offset(20);
  more.set_data(std::string(2'981, 'x'));  // one too many
  EXPECT_EQ(answer([&](Upload& u) { u.SendRaw(more); }), "BLOB_SIZE");
  more.set_data(std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(answer([&](Upload& u) { u.SendRaw(more); }), "CHUNK_TOO_LARGE");
  EXPECT_EQ(answer([](Upload& u) { u.Send(20, 3'000, true); }), "OK");
  EXPECT_EQ(answer([](Upload& u) { u.Send(0, 3'000, true); }), "OK");  // it is here already
}

TEST(Streams, ASecondWriterOfTheSameBytesIsToldToWait) {
  TestServer server(false);
  const std::string bytes = Bytes(3'000);
  Upload first(server, bytes);
  first.Send(0, 10);
  while (StatusOf(server, first.sha256()).committed_size() < 10) {
  }
  Upload second(server, bytes);
  second.Send(10, 3'000, true);
  EXPECT_EQ(second.Answer(), "BLOB_BUSY");
  first.Send(10, 3'000, true);
  EXPECT_EQ(first.Answer(), "OK");
}

// The client neither sends nor ends; the server does.
TEST(Streams, AStalledUploadEndsByNameAndGoesOnLater) {
  TestServer server(false, Impatient());
  const std::string bytes = Bytes(3'000);
  Upload silent(server, bytes);
  EXPECT_EQ(silent.Answer(), "UPLOAD_STALLED");  // without a first message
  Upload stalled(server, bytes);
  stalled.Send(0, 1'000);
  EXPECT_EQ(stalled.Answer(), "UPLOAD_STALLED");
  EXPECT_EQ(stalled.code(), grpc::StatusCode::UNAVAILABLE);  // clients try again by themselves
  EXPECT_EQ(StatusOf(server, Sha256Hex(bytes)).committed_size(), 1'000u);
  Upload again(server, bytes);
  again.Send(1'000, 3'000, true);
  EXPECT_EQ(again.Answer(), "OK");
}

TEST(Streams, AnUploadWithoutEndIsEndedByName) {
  ServerOptions options = Impatient();
  options.limits.upload_slowest_bytes_per_s = 10'000'000;
  TestServer server(false, options);
  const std::string bytes = Bytes(1'000'000);
  Upload nothing(server, bytes);
  nothing.Send(0, 1);
  while (nothing.Send(1, 1)) {  // messages without bytes, for ever
  }
  EXPECT_EQ(nothing.Answer(), "CHUNK_EMPTY");
  Upload trickle(server, bytes);
  // Never silent for long, but it would take an hour and more.
  for (size_t at = 1; trickle.Send(at, at + 1); ++at) ::usleep(5'000);
  EXPECT_EQ(trickle.Answer(), "UPLOAD_TOO_SLOW");
}

TEST(Streams, AStalledIngestEndsByName) {
  TestServer server(false, Impatient());
  const auto stub = v1::CaptureService::NewStub(server.channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::Capture capture;
  const auto writer = stub->Ingest(&context, &capture);
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonIn(context), "UPLOAD_STALLED");
}

}  // namespace
}  // namespace assay::rpc
