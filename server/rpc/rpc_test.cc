// One run from upload to seal over a Unix socket, with a worker that answers leases with real
// blobs.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "assay/v1/blob.grpc.pb.h"
#include "assay/v1/capture.grpc.pb.h"
#include "assay/v1/model.grpc.pb.h"
#include "assay/v1/report.grpc.pb.h"
#include "assay/v1/run.grpc.pb.h"
#include "assay/v1/suite.grpc.pb.h"
#include "assay/v1/worker.grpc.pb.h"
#include "server/engine/engine.h"
#include "server/obs/metrics.h"
#include "server/rpc/server.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/local_address.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/safetensors.h"
#include "storage/format/suite.h"
#include "storage/report/positions.h"
#include "storage/seal/verify.h"

namespace assay {
namespace {

constexpr uint64_t kWidth = 4;

std::string TempDir() {
  std::string name = "/tmp/assay_rpcXXXXXX";
  return ::mkdtemp(name.data());
}

std::string SuiteDir() {
  const char* source = std::getenv("ASSAY_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/deploy/panel/suite";
}

std::string ReasonOfCall(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto it = trailers.find("assay-reason");
  return it == trailers.end() ? "" : std::string(it->second.data(), it->second.size());
}

EngineOptions Options(const std::string& dir) {
  EngineOptions options;
  options.data_dir = dir;
  options.ballast_bytes = 0;
  options.min_free_bytes = 0;
  options.core.unit_contexts = 5;
  options.core.build_id = "test";
  options.tick_ms = 20;
  return options;
}

// A coordinator on a Unix socket, and stubs.
class Cluster {
 public:
  explicit Cluster(const std::string& dir, rpc::ServerOptions options = {}) : dir_(dir) {
    auto opened = Engine::Open(Options(dir));
    EXPECT_TRUE(opened.ok()) << opened.status();
    engine = *std::move(opened);
    options.listen = {"unix:" + dir + "/s"};
    auto started = rpc::Server::Start(engine.get(), options);
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
    channel = grpc::CreateChannel("unix:" + dir + "/s", grpc::InsecureChannelCredentials());
  }
  ~Cluster() {
    engine->BeginDrain();
    server->Shutdown(1000);
    engine->Stop();
  }

  std::string Upload(const std::string& bytes, size_t chunk = size_t{1} << 20) {
    const std::string sha256 = Sha256Hex(bytes);
    auto stub = v1::BlobService::NewStub(channel);
    grpc::ClientContext context;
    v1::WriteResponse response;
    auto writer = stub->Write(&context, &response);
    size_t at = 0;
    do {
      v1::WriteRequest request;
      if (at == 0) request.set_sha256(sha256);
      if (at == 0) request.set_size(bytes.size());
      request.set_offset(at);
      request.set_data(bytes.substr(at, chunk));
      at += request.data().size();
      request.set_finish(at == bytes.size());
      if (!writer->Write(request)) break;
    } while (at < bytes.size());
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return sha256;
  }

  std::string Download(const std::string& sha256) {
    auto stub = v1::BlobService::NewStub(channel);
    grpc::ClientContext context;
    v1::ReadRequest request;
    request.set_sha256(sha256);
    auto reader = stub->Read(&context, request);
    std::string bytes;
    v1::ReadResponse response;
    while (reader->Read(&response)) {
      EXPECT_EQ(response.offset(), bytes.size());
      bytes += response.data();
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(Sha256Hex(bytes), sha256);
    return bytes;
  }

  std::string AddModel(const std::string& name) {
    auto stub = v1::ModelService::NewStub(channel);
    grpc::ClientContext context;
    v1::CreateModelRequest request;
    request.set_manifest_json(R"({"files":[{"path":")" + name + R"(.gguf","sha256":")" +
                              Sha256Hex(name) + R"(","size":10}]})");
    v1::Model model;
    const grpc::Status status = stub->CreateModel(&context, request, &model);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_FALSE(model.files_in_store());
    return model.name();
  }

  std::string AddPanel() {
    const Suite suite = ReadSuite(SuiteDir()).value();
    for (const SuiteContext& c : suite.contexts)
      Upload(ReadFile(SuiteDir() + "/" + c.file, 1 << 20).value());
    auto stub = v1::SuiteService::NewStub(channel);
    grpc::ClientContext context;
    v1::CreateSuiteRequest request;
    request.set_manifest_sha256(
        Upload(ReadFile(SuiteDir() + "/suite-manifest.json", 1 << 26).value()));
    v1::Suite out;
    const grpc::Status status = stub->CreateSuite(&context, request, &out);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(out.suite_token_sha256(), suite.suite_token_sha256);
    return out.name();
  }

  std::string dir_;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<rpc::Server> server;
  std::shared_ptr<grpc::Channel> channel;
};

int UnixSocket(const std::string& path, bool listen) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path, path.c_str(), sizeof(name.sun_path) - 1);
  const auto* address = reinterpret_cast<const sockaddr*>(&name);
  EXPECT_EQ(listen ? ::bind(fd, address, sizeof(name)) : ::connect(fd, address, sizeof(name)), 0);
  if (listen) {
    EXPECT_EQ(::listen(fd, 1), 0);
  }
  return fd;
}

// Carries one connection until it is frozen: then nothing moves any more and nothing is closed, as
// when a host loses power.
class FreezingProxy {
 public:
  FreezingProxy(const std::string& from, const std::string& to)
      : listener_(UnixSocket(from, true)), thread_([this, to] { Carry(to); }) {}
  ~FreezingProxy() {
    stop_ = true;
    thread_.join();
    ::close(listener_);
  }
  void Freeze() { frozen_ = true; }

 private:
  void Carry(const std::string& to) {
    const int a = ::accept(listener_, nullptr, nullptr);
    const int b = UnixSocket(to, false);
    std::vector<char> buffer(1 << 16);
    while (!stop_) {
      pollfd fds[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
      if (frozen_ || ::poll(fds, 2, 20) <= 0) {
        if (frozen_) ::usleep(1000);
        continue;
      }
      for (int i = 0; i < 2; ++i) {
        if (fds[i].revents == 0) continue;
        const ssize_t n = ::read(fds[i].fd, buffer.data(), buffer.size());
        for (ssize_t at = 0; at < n;) {
          const ssize_t sent =
              ::write(fds[1 - i].fd, buffer.data() + at, static_cast<size_t>(n - at));
          if (sent <= 0) break;
          at += sent;
        }
      }
    }
    ::close(a);
    ::close(b);
  }
  std::atomic<bool> stop_{false}, frozen_{false};
  const int listener_;
  std::thread thread_;
};

// Value of an output at a position: anything that tells positions apart.
double F64At(size_t output, int64_t index, uint64_t row) {
  return 0.001 * static_cast<double>(output + 1) + 1e-4 * static_cast<double>(index) +
         1e-6 * static_cast<double>(row);
}

// Answers leases with blobs of the right form.
class FakeWorker {
 public:
  explicit FakeWorker(Cluster* cluster)
      : cluster_(cluster), stub_(v1::WorkerService::NewStub(cluster->channel)) {}

  // Works until `stop`.
  void Run(const std::function<bool()>& stop) {
    std::vector<v1::UnitResult> results;
    while (!stop()) {
      v1::SynchronizeRequest request;
      request.set_protocol_version(1);
      request.set_worker_id("w0");
      request.set_incarnation("0123456789abcdef");
      request.set_tp(1);
      request.set_replay_identity_json(R"({"backend":"cpu-f32","self_test":"a"})");
      request.set_capture_identity_json(R"({"engine":"fake","self_test":"b"})");
      request.set_free_slots(1);
      request.set_wait_ms(200);
      for (const auto& result : results) *request.add_results() = result;
      grpc::ClientContext context;
      v1::SynchronizeResponse response;
      const grpc::Status status = stub_->Synchronize(&context, request, &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      for (const auto& ack : response.acks()) {
        EXPECT_EQ(ack.outcome(), v1::ResultAck::ACCEPTED) << ack.message();
      }
      results.clear();
      for (const v1::Lease& lease : response.start()) results.push_back(Do(lease));
    }
  }

 private:
  v1::UnitResult Do(const v1::Lease& lease) {
    const Json unit = ParseJson(lease.unit_json(), "unit").value();
    Json result;
    if (unit["kind"] == "prepare") result = Prepare(unit);
    if (unit["kind"] == "capture") result = Capture(unit);
    if (unit["kind"] == "replay") result = Replay(unit);
    v1::UnitResult out;
    out.set_lease_id(lease.lease_id());
    out.set_result_json(result.dump());
    return out;
  }

  Json Prepare(const Json& unit) {
    const std::vector<uint8_t> head(2 * 49152 * kWidth, 0x3f);
    SafetensorsBuilder builder;
    builder.Add("lm_head.weight", DType::kBF16, {49152, kWidth}, head);
    const std::string bytes = builder.Build();
    return {{"facts", {{"architecture", "llama"}, {"vocab", 49152}, {"file_bytes", 10}}},
            {"head",
             {{"sha256", cluster_->Upload(bytes)},
              {"bytes", bytes.size()},
              {"content_sha256", Sha256Hex(std::string_view(
                                     reinterpret_cast<const char*>(head.data()), head.size()))},
              {"tensor", "lm_head.weight"},
              {"vocab", 49152},
              {"hidden", kWidth},
              {"storage_format", "BF16"}}}};
  }

  Json Capture(const Json& unit) {
    Json files = Json::array();
    for (const Json& context : unit["contexts"]) {
      const uint64_t rows = context["tokens"].size() - 1;
      std::vector<uint16_t> values(rows * kWidth,
                                   static_cast<uint16_t>(0x3f80 + context["index"].get<int>()));
      values[0] = static_cast<uint16_t>(unit["model"]["identity"].get<std::string>()[0]);
      const std::string bytes = BuildHiddenFile(values, rows, kWidth).value();
      files.push_back({{"index", context["index"]},
                       {"sha256", cluster_->Upload(bytes)},
                       {"bytes", bytes.size()},
                       {"rows", rows},
                       {"width", kWidth}});
    }
    return {{"files", files}, {"identity", {{"engine", "fake"}, {"self_test", "b"}}}};
  }

  Json Replay(const Json& unit) {
    SafetensorsBuilder builder;
    for (const Json& comparison : unit["comparisons"]) {
      for (const Json& context : unit["contexts"]) {
        const uint64_t rows = context["observed"].size();
        char index[16];
        std::snprintf(index, sizeof(index), "%06d", context["index"].get<int>());
        const std::string prefix = comparison["id"].get<std::string>() + "|" + index + "|";
        for (size_t o = 0; o < kF64Outputs.size(); ++o) {
          std::vector<double> values(rows);
          for (uint64_t r = 0; r < rows; ++r)
            values[r] = F64At(o, context["index"].get<int64_t>(), r);
          builder.Add(prefix + std::string(kF64Outputs[o]), DType::kF64, {rows},
                      {reinterpret_cast<const uint8_t*>(values.data()), rows * 8});
        }
        for (const std::string_view output : kI32Outputs) {
          const std::vector<int32_t> ones(rows, 1);
          builder.Add(prefix + std::string(output), DType::kI32, {rows},
                      {reinterpret_cast<const uint8_t*>(ones.data()), rows * 4});
        }
      }
    }
    const std::string bytes = builder.Build();
    return {{"sha256", cluster_->Upload(bytes)},
            {"bytes", bytes.size()},
            {"backend", "cpu-f32"},
            {"rounded_operands", Json::array()},
            {"maxima", Json::object()}};
  }

  Cluster* cluster_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
};

v1::CreateRunRequest RunRequest(const std::string& id, const std::string& suite,
                                const std::string& reference, const std::string& candidate) {
  v1::CreateRunRequest request;
  request.set_request_id(id);
  request.mutable_spec()->set_suite(suite);
  request.mutable_spec()->mutable_reference()->set_model(reference);
  auto* c = request.mutable_spec()->add_candidates();
  c->set_label("cand");
  c->mutable_source()->set_model(candidate);
  return request;
}

TEST(Rpc, ARunOverASocketEndsWithAReportThatVerifies) {
  const std::string dir = TempDir();
  std::string report_sha256, receipt_sha256;
  v1::CreateRunRequest create;
  {
    Cluster cluster(dir);
    const std::string suite = cluster.AddPanel();
    create = RunRequest("r1", suite, cluster.AddModel("ref"), cluster.AddModel("cand"));
    // ASSAY_KEEP_STORE=FOLDER keeps a small store: how tests/data/store-v1.tar.gz was made.
    const bool small = std::getenv("ASSAY_KEEP_STORE") != nullptr;
    if (small) create.mutable_spec()->set_filter("sentinel");
    auto runs = v1::RunService::NewStub(cluster.channel);
    v1::Run run;
    grpc::ClientContext context;
    const grpc::Status created = runs->CreateRun(&context, create, &run);
    ASSERT_TRUE(created.ok()) << created.error_message();

    std::atomic<bool> stop{false};
    std::thread worker([&] { FakeWorker(&cluster).Run([&] { return stop.load(); }); });
    grpc::ClientContext watch_context;
    v1::WatchRunRequest watch;
    watch.set_name(run.name());
    auto events = runs->WatchRun(&watch_context, watch);
    v1::RunEvent event;
    uint64_t revision = 0;
    bool progress = false;
    while (events->Read(&event)) {
      EXPECT_GE(event.revision(), revision);
      revision = event.revision();
      progress = progress || event.kind() == v1::RunEvent::PROGRESS;
    }
    EXPECT_TRUE(events->Finish().ok());
    EXPECT_TRUE(progress);
    stop = true;
    worker.join();

    grpc::ClientContext get_context;
    v1::GetRunRequest get;
    get.set_name(run.name());
    ASSERT_TRUE(runs->GetRun(&get_context, get, &run).ok());
    ASSERT_EQ(run.state(), v1::Run::SUCCEEDED) << run.ShortDebugString();
    auto reports = v1::ReportService::NewStub(cluster.channel);
    grpc::ClientContext report_context;
    v1::GetReportRequest get_report;
    get_report.set_name(run.candidates(0).report());
    v1::Report report;
    ASSERT_TRUE(reports->GetReport(&report_context, get_report, &report).ok());
    // Position arrays are the worker's values in suite order.
    const Suite suite_rows = ReadSuite(SuiteDir()).value();
    bool found = false;
    for (const auto& array : report.arrays()) {
      if (array.head() != "own" || array.output() != kF64Outputs[4]) continue;
      found = true;
      const std::vector<double> got =
          F64FromBytes(cluster.Download(array.file().sha256()), "array").value();
      std::vector<double> want;
      for (const SuiteContext& c : suite_rows.contexts) {
        if (small && !c.sentinel) continue;
        for (uint64_t r = 0; r + 1 < c.tokens.size(); ++r) want.push_back(F64At(4, c.index, r));
      }
      EXPECT_EQ(got, want);
    }
    EXPECT_TRUE(found);
    auto receipts = v1::ReceiptService::NewStub(cluster.channel);
    grpc::ClientContext receipt_context;
    v1::GetReceiptRequest get_receipt;
    get_receipt.set_name(report.receipt());
    v1::Receipt receipt;
    ASSERT_TRUE(receipts->GetReceipt(&receipt_context, get_receipt, &receipt).ok());
    grpc::ClientContext key_context;
    v1::PublicKey key;
    ASSERT_TRUE(receipts->GetPublicKey(&key_context, {}, &key).ok());
    const std::vector<PublicKey> trusted = {PublicKey::FromPem(key.pem(), "key").value()};
    report_sha256 = report.report().sha256();
    receipt_sha256 = receipt.receipt().sha256();
    const Verification verification =
        VerifyReceipt(cluster.Download(receipt_sha256), cluster.Download(report_sha256),
                      cluster.Download(report.execution().sha256()), trusted);
    EXPECT_EQ(verification.verdict, Verdict::kValid) << verification.ToText();
    // No path, run id or label in the report.
    const std::string text = cluster.Download(report_sha256);
    EXPECT_EQ(text.find(run.name().substr(5)), std::string::npos);
    EXPECT_EQ(text.find("\"cand\""), std::string::npos);
    const std::string metrics = MetricsText(*cluster.engine);
    EXPECT_NE(metrics.find("assay_runs{state=\"succeeded\"} 1"), std::string::npos) << metrics;
    EXPECT_NE(metrics.find("assay_reports_sealed_total 1"), std::string::npos);
    ASSERT_TRUE(WriteFile(dir + "/metrics.txt", metrics).ok());
    if (std::system("command -v promtool >/dev/null") == 0) {
      EXPECT_EQ(std::system(("promtool check metrics < " + dir + "/metrics.txt").c_str()), 0);
    }
  }
  // A new process: the same request is the same run, other requests for the same work get the same
  // report at once.
  Cluster cluster(dir);
  auto runs = v1::RunService::NewStub(cluster.channel);
  v1::Run run;
  grpc::ClientContext context;
  ASSERT_TRUE(runs->CreateRun(&context, create, &run).ok());
  EXPECT_TRUE(run.existing());
  create.set_request_id("r2");
  grpc::ClientContext context2;
  ASSERT_TRUE(runs->CreateRun(&context2, create, &run).ok());
  EXPECT_EQ(run.state(), v1::Run::SUCCEEDED);
  EXPECT_TRUE(run.candidates(0).reused());
  EXPECT_EQ(run.candidates(0).report(), "reports/" + report_sha256);
  if (const char* keep = std::getenv("ASSAY_KEEP_STORE"); keep != nullptr) {
    EXPECT_EQ(std::system(("cp -a " + dir + " " + keep).c_str()), 0);
  }
}

TEST(Rpc, UploadsResumeAndErrorsCarryTheirReason) {
  Cluster cluster(TempDir());
  auto stub = v1::BlobService::NewStub(cluster.channel);
  const std::string bytes(3'000'000, 'b');
  const std::string sha256 = Sha256Hex(bytes);
  const auto write = [&](uint64_t offset, const std::string& data, bool finish,
                         std::string* reason) {
    grpc::ClientContext context;
    v1::WriteResponse response;
    auto writer = stub->Write(&context, &response);
    v1::WriteRequest request;
    request.set_sha256(sha256);
    request.set_size(bytes.size());
    request.set_offset(offset);
    request.set_data(data);
    request.set_finish(finish);
    writer->Write(request);
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    *reason = ReasonOfCall(context);
    return status.ok();
  };
  std::string reason;
  EXPECT_FALSE(write(0, bytes.substr(0, 1'000'000), false, &reason));
  EXPECT_EQ(reason, "STREAM_CUT");
  grpc::ClientContext context;
  v1::QueryWriteStatusRequest query;
  query.set_sha256(sha256);
  v1::QueryWriteStatusResponse status;
  ASSERT_TRUE(stub->QueryWriteStatus(&context, query, &status).ok());
  EXPECT_EQ(status.committed_size(), 1'000'000u);
  EXPECT_FALSE(write(5, "x", false, &reason));
  EXPECT_EQ(reason, "OFFSET_MISMATCH");
  EXPECT_FALSE(write(1'000'000, bytes.substr(0, (1 << 20) + 1), false, &reason));
  EXPECT_EQ(reason, "CHUNK_TOO_LARGE");
  EXPECT_FALSE(write(1'000'000, bytes.substr(0, 1'000'000), false, &reason));
  EXPECT_TRUE(write(2'000'000, bytes.substr(0, 1'000'000), true, &reason));
  EXPECT_EQ(cluster.Download(sha256), bytes);

  auto runs = v1::RunService::NewStub(cluster.channel);
  grpc::ClientContext run_context;
  v1::GetRunRequest get;
  get.set_name("runs/none");
  v1::Run run;
  EXPECT_EQ(runs->GetRun(&run_context, get, &run).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOfCall(run_context), "RUN_UNKNOWN");
  grpc::ClientContext page_context;
  v1::ListRunsRequest list;
  list.mutable_page()->set_page_token("suites:1");
  v1::ListRunsResponse listed;
  EXPECT_FALSE(runs->ListRuns(&page_context, list, &listed).ok());
  EXPECT_EQ(ReasonOfCall(page_context), "PAGE_INVALID");
}

TEST(Rpc, AHostThatVanishesInAnUploadDoesNotKeepTheBlobToItself) {
  rpc::ServerOptions options;
  options.limits.keepalive_ms = options.limits.keepalive_timeout_ms = 300;
  Cluster cluster(TempDir(), options);
  FreezingProxy proxy(cluster.dir_ + "/p", cluster.dir_ + "/s");
  const std::string bytes(100'000, 'v');
  v1::WriteRequest request;
  request.set_sha256(Sha256Hex(bytes));
  request.set_size(bytes.size());
  request.set_data(bytes.substr(0, 10'000));
  auto lost = v1::BlobService::NewStub(
      grpc::CreateChannel("unix:" + cluster.dir_ + "/p", grpc::InsecureChannelCredentials()));
  grpc::ClientContext lost_context;
  v1::WriteResponse lost_response;
  auto writer = lost->Write(&lost_context, &lost_response);
  ASSERT_TRUE(writer->Write(request));
  auto stub = v1::BlobService::NewStub(cluster.channel);
  v1::QueryWriteStatusResponse status;
  while (status.committed_size() < 10'000) {
    grpc::ClientContext context;
    v1::QueryWriteStatusRequest query;
    query.set_sha256(request.sha256());
    ASSERT_TRUE(stub->QueryWriteStatus(&context, query, &status).ok());
  }
  proxy.Freeze();
  request.set_offset(10'000);
  request.set_data(bytes.substr(10'000));
  request.set_finish(true);
  std::string reason = "BLOB_BUSY";
  for (int i = 0; i < 600 && reason == "BLOB_BUSY"; ++i) {
    grpc::ClientContext context;
    v1::WriteResponse response;
    auto again = stub->Write(&context, &response);
    again->Write(request);
    again->WritesDone();
    reason = again->Finish().ok() ? "" : ReasonOfCall(context);
    if (reason == "BLOB_BUSY") ::usleep(50'000);
  }
  EXPECT_EQ(reason, "");
  EXPECT_EQ(cluster.Download(request.sha256()), bytes);
  lost_context.TryCancel();
  writer->Finish();
}

TEST(Rpc, APageOfLargeModelsEndsBeforeTheMessageLimit) {
  Cluster cluster(TempDir());
  auto stub = v1::ModelService::NewStub(cluster.channel);
  for (int m = 0; m < 11; ++m) {
    Json files = Json::array();
    for (int i = 10'000; i < 14'000; ++i) {
      files.push_back({{"path", "m" + std::to_string(m) + "-" + std::to_string(i)},
                       {"sha256", Sha256Hex(std::to_string(i))},
                       {"size", 1}});
    }
    v1::CreateModelRequest request;
    request.set_manifest_json(Json{{"files", files}}.dump());
    grpc::ClientContext context;
    v1::Model model;
    const grpc::Status status = stub->CreateModel(&context, request, &model);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  std::set<std::string> names;
  int pages = 0;
  v1::ListModelsRequest list;
  list.mutable_page()->set_page_size(1000);
  do {
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    const grpc::Status status = stub->ListModels(&context, list, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const v1::Model& model : response.models()) EXPECT_TRUE(names.insert(model.name()).second);
    list.mutable_page()->set_page_token(response.next_page_token());
    ++pages;
  } while (!list.page().page_token().empty());
  EXPECT_EQ(names.size(), 11u);
  EXPECT_GT(pages, 1);
}

TEST(Rpc, ARunThatComesBetweenTwoPagesRepeatsNoRow) {
  Cluster cluster(TempDir());
  const std::string suite = cluster.AddPanel();
  const std::string ref = cluster.AddModel("ref"), cand = cluster.AddModel("cand");
  auto runs = v1::RunService::NewStub(cluster.channel);
  const auto create = [&](const std::string& id) {
    grpc::ClientContext context;
    v1::Run run;
    EXPECT_TRUE(runs->CreateRun(&context, RunRequest(id, suite, ref, cand), &run).ok());
    return run.name();
  };
  std::vector<std::string> made;
  for (const char* id : {"r1", "r2", "r3", "r4", "r5"}) made.push_back(create(id));
  std::vector<std::string> seen;
  v1::ListRunsRequest list;
  list.mutable_page()->set_page_size(2);
  do {
    grpc::ClientContext context;
    v1::ListRunsResponse response;
    ASSERT_TRUE(runs->ListRuns(&context, list, &response).ok());
    EXPECT_LE(response.runs_size(), 2);
    for (const v1::Run& run : response.runs()) seen.push_back(run.name());
    list.mutable_page()->set_page_token(response.next_page_token());
    create("between" + std::to_string(seen.size()));
  } while (!list.page().page_token().empty());
  EXPECT_EQ(seen, std::vector<std::string>(made.rbegin(), made.rend()));
}

TEST(Rpc, MoreWatchersThanThereMayBeAreRefusedByName) {
  rpc::ServerOptions options;
  options.limits.watchers_max = 2;
  Cluster cluster(TempDir(), options);
  auto runs = v1::RunService::NewStub(cluster.channel);
  v1::Run run;
  {
    grpc::ClientContext context;
    const auto request =
        RunRequest("r1", cluster.AddPanel(), cluster.AddModel("ref"), cluster.AddModel("cand"));
    ASSERT_TRUE(runs->CreateRun(&context, request, &run).ok());
  }
  v1::WatchRunRequest watch;
  watch.set_name(run.name());
  v1::RunEvent event;
  grpc::ClientContext first, second, third;
  const auto a = runs->WatchRun(&first, watch);
  const auto b = runs->WatchRun(&second, watch);
  EXPECT_TRUE(a->Read(&event));
  EXPECT_TRUE(b->Read(&event));
  const auto refused = runs->WatchRun(&third, watch);
  EXPECT_FALSE(refused->Read(&event));
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOfCall(third), "TOO_MANY_WATCHERS");
  first.TryCancel();
  a->Finish();
  // The place of one that went away is free again, once the server has seen that.
  for (;;) {
    grpc::ClientContext again;
    const auto stream = runs->WatchRun(&again, watch);
    if (stream->Read(&event)) {
      again.TryCancel();
      stream->Finish();
      break;
    }
    stream->Finish();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  second.TryCancel();
  b->Finish();
}

// A label that is cut in the middle of a character must not make the store unreadable.
TEST(Rpc, ALongLabelIsCutBetweenCharactersAndTheStoreOpensAgain) {
  const std::string dir = TempDir();
  v1::CreateRunRequest create;
  {
    Cluster cluster(dir);
    const std::string suite = cluster.AddPanel();
    create = RunRequest("r1", suite, cluster.AddModel("ref"), cluster.AddModel("cand"));
    std::string label;
    while (label.size() < 300) label += "\xe2\x82\xac";
    create.mutable_spec()->set_reference_label(label);
    auto runs = v1::RunService::NewStub(cluster.channel);
    v1::Run run;
    grpc::ClientContext context;
    const grpc::Status status = runs->CreateRun(&context, create, &run);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(run.spec().reference_label().size(), 255u);
  }
  const auto again = Engine::Open(Options(dir));
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST(Rpc, AnEngineCanDeliverACapture) {
  Cluster cluster(TempDir());
  const std::string suite_name = cluster.AddPanel();
  const Suite suite = ReadSuite(SuiteDir()).value();
  auto stub = v1::CaptureService::NewStub(cluster.channel);
  std::string manifest;
  const auto ingest = [&](const std::string& tokens, size_t contexts, v1::Capture* capture) {
    grpc::ClientContext context;
    auto writer = stub->Ingest(&context, capture);
    v1::IngestRequest request;
    auto* header = request.mutable_header();
    header->set_suite(suite_name);
    header->set_suite_token_sha256(tokens);
    header->set_stack_json(R"({"engine":"other"})");
    header->set_candidate_identity_json(R"({"name":"x"})");
    header->set_manifest_json(manifest);
    writer->Write(request);
    for (size_t i = 0; i < contexts; ++i) {
      const uint64_t rows = static_cast<uint64_t>(suite.context_length) - 1;
      const std::vector<uint16_t> values(rows * kWidth, static_cast<uint16_t>(0x3f80 + i));
      const std::string bytes = BuildHiddenFile(values, rows, kWidth).value();
      auto* chunk = request.mutable_chunk();
      chunk->set_index(suite.contexts[i].index);
      chunk->set_sha256(Sha256Hex(bytes));
      chunk->set_size(bytes.size());
      chunk->set_offset(0);
      chunk->set_data(bytes);
      chunk->set_last(true);
      if (!writer->Write(request)) break;
    }
    writer->WritesDone();
    writer->Finish();
    return ReasonOfCall(context);
  };
  v1::Capture capture;
  EXPECT_EQ(ingest(Sha256Hex("others"), 1, &capture), "INGEST_TOKENS_DIFFER");
  EXPECT_EQ(ingest(suite.suite_token_sha256, 3, &capture), "INGEST_INCOMPLETE");
  EXPECT_EQ(ingest(suite.suite_token_sha256, suite.contexts.size(), &capture), "");
  EXPECT_EQ(capture.state(), v1::Capture::COMPLETE);
  EXPECT_EQ(capture.hidden(), static_cast<int64_t>(kWidth));
  EXPECT_EQ(capture.origin(), "ingest");

  // Some contexts of the filter, which the manifest names.
  const auto indices = [&](std::vector<size_t> at) {
    Json json = Json::object();
    json["contexts"] = Json::array();
    for (const size_t i : at) json["contexts"].push_back(suite.contexts[i].index);
    return json.dump();
  };
  manifest = indices({0, 1});
  EXPECT_EQ(ingest(suite.suite_token_sha256, 1, &capture), "INGEST_INCOMPLETE");
  EXPECT_EQ(ingest(suite.suite_token_sha256, 3, &capture), "INGEST_ORDER");
  EXPECT_EQ(ingest(suite.suite_token_sha256, 2, &capture), "");
  EXPECT_EQ(capture.contexts_done(), 2);
  manifest = indices({0, 1, 1});
  EXPECT_EQ(ingest(suite.suite_token_sha256, 2, &capture), "INGEST_HEADER_INVALID");
  manifest = R"({"contexts":7})";
  EXPECT_EQ(ingest(suite.suite_token_sha256, 2, &capture), "INGEST_HEADER_INVALID");

  // A published manifest is named only if it is here and records what was delivered.
  const uint64_t rows = static_cast<uint64_t>(suite.context_length) - 1;
  std::vector<CaptureRecord> records;
  for (size_t i = 0; i < suite.contexts.size(); ++i) {
    const std::vector<uint16_t> values(rows * kWidth, static_cast<uint16_t>(0x3f80 + i));
    records.push_back({suite.contexts[i].index,
                       Sha256Hex(BuildHiddenFile(values, rows, kWidth).value()), rows, kWidth});
  }
  const auto names = [&](const std::vector<CaptureRecord>& recorded, bool uploaded) {
    CaptureWriterInfo info;
    info.filter = "all";
    const std::string bytes = PythonPrettyJson(BuildCaptureManifest(suite, info, recorded, true));
    if (uploaded) {
      EXPECT_TRUE(PutBlob(cluster.engine->blobs(), bytes).ok());
    }
    manifest = Json{{"manifest_sha256", Sha256Hex(bytes)}}.dump();
    return ingest(suite.suite_token_sha256, suite.contexts.size(), &capture);
  };
  EXPECT_EQ(names(records, false), "BLOB_MISSING");
  EXPECT_EQ(names(records, true), "");
  std::swap(records[0].sha256, records[1].sha256);
  EXPECT_EQ(names(records, true), "INGEST_MANIFEST_DIFFERS");
  manifest = R"({"manifest_sha256":"../x"})";
  EXPECT_EQ(ingest(suite.suite_token_sha256, suite.contexts.size(), &capture),
            "INGEST_HEADER_INVALID");
}

TEST(Server, AddressesAreChecked) {
  EXPECT_TRUE(IsLocalAddress("unix:/tmp/x"));
  EXPECT_TRUE(IsLocalAddress("127.0.0.1:1"));
  EXPECT_TRUE(IsLocalAddress("[::1]:1"));
  EXPECT_TRUE(IsLocalAddress("localhost:1"));
  EXPECT_FALSE(IsLocalAddress("0.0.0.0:1"));
  EXPECT_FALSE(IsLocalAddress("10.0.0.1:1"));
  Cluster cluster(TempDir());
  rpc::ServerOptions options;
  options.listen = {"0.0.0.0:0"};
  EXPECT_EQ(ReasonOf(rpc::Server::Start(cluster.engine.get(), options).status()), "LISTEN_INVALID");
  options.listen = {"unix:" + cluster.dir_ + "/s"};
  EXPECT_EQ(ReasonOf(rpc::Server::Start(cluster.engine.get(), options).status()), "PORT_IN_USE");
  options.listen = {"127.0.0.1:0"};
  const auto first = rpc::Server::Start(cluster.engine.get(), options);
  ASSERT_TRUE(first.ok());
  options.listen = (*first)->addresses();
  EXPECT_EQ(ReasonOf(rpc::Server::Start(cluster.engine.get(), options).status()), "PORT_IN_USE");
}

}  // namespace
}  // namespace assay
