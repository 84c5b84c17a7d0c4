// Every cell of method x role, by real calls. The expected table is written out here by hand;
// methods come from the descriptors, so one without a line here fails.

#include "server/rpc/access.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "assay/v1/run.grpc.pb.h"
#include "assay/v1/worker.grpc.pb.h"
#include "server/rpc/security_test_util.h"
#include "storage/base/json.h"

namespace assay::rpc {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Columns: reader, submitter, worker, admin; x may call.
const std::map<std::string, std::string>& Expected() {
  static const auto* table =
      new std::map<std::string, std::string>{{"BlobService/FindMissing", "-xxx"},
                                             {"BlobService/QueryWriteStatus", "-xxx"},
                                             {"BlobService/Read", "xxxx"},
                                             {"BlobService/Write", "-xxx"},
                                             {"CaptureService/GetCapture", "xx-x"},
                                             {"CaptureService/Ingest", "-x-x"},
                                             {"CaptureService/ListCaptureFiles", "xx-x"},
                                             {"CaptureService/ListCaptures", "xx-x"},
                                             {"CaptureService/PruneCaptures", "-x-x"},
                                             {"EvidenceService/ListDisputes", "xx-x"},
                                             {"HeadService/CreateHead", "-x-x"},
                                             {"HeadService/GetHead", "xx-x"},
                                             {"HeadService/ListHeads", "xx-x"},
                                             {"ModelService/CreateModel", "-x-x"},
                                             {"ModelService/GetModel", "xx-x"},
                                             {"ModelService/ListModels", "xx-x"},
                                             {"ReceiptService/GetLogProof", "xx-x"},
                                             {"ReceiptService/GetPublicKey", "xxxx"},
                                             {"ReceiptService/GetReceipt", "xx-x"},
                                             {"ReceiptService/ListReceipts", "xx-x"},
                                             {"ReportService/GetReport", "xx-x"},
                                             {"ReportService/ListReports", "xx-x"},
                                             {"RunService/CancelRun", "-x-x"},
                                             {"RunService/CreateRun", "-x-x"},
                                             {"RunService/GetRun", "xx-x"},
                                             {"RunService/ListRuns", "xx-x"},
                                             {"RunService/ListUnits", "xx-x"},
                                             {"RunService/WatchRun", "xx-x"},
                                             {"SuiteService/CreateSuite", "-x-x"},
                                             {"SuiteService/GetSuite", "xx-x"},
                                             {"SuiteService/ListSuites", "xx-x"},
                                             {"WorkerAdminService/ListWorkers", "xx-x"},
                                             {"WorkerService/Synchronize", "--x-"}};
  return *table;
}

std::set<std::string> MethodsOfDescriptors() {
  std::set<std::string> methods;
  const char* source = std::getenv("ASSAY_SOURCE_DIR");
  const std::string folder = std::string(source == nullptr ? "." : source) + "/proto/assay/v1";
  const std::vector<std::string> files = ListDirectory(folder).value();
  for (const std::string& name : files) {
    const auto* file =
        google::protobuf::DescriptorPool::generated_pool()->FindFileByName("assay/v1/" + name);
    EXPECT_NE(file, nullptr) << name;
    if (file == nullptr) continue;
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.insert(file->service(s)->name() + "/" + file->service(s)->method(m)->name());
      }
    }
  }
  return methods;
}

TEST(Access, EveryMethodHasItsLine) {
  std::set<std::string> written, rows;
  for (const auto& [method, roles] : Expected()) written.insert(method);
  for (const AccessRow& row : kAccess) rows.insert(std::string(row.method));
  EXPECT_EQ(written, MethodsOfDescriptors());
  EXPECT_EQ(rows, MethodsOfDescriptors());
}

TEST(Access, EveryCellIsAsWritten) {
  TestServer server(/*tokens=*/true);
  const std::string roles[] = {"reader", "submitter", "worker", "admin"};
  for (const std::string& method : MethodsOfDescriptors()) {
    for (size_t r = 0; r < 4; ++r) {
      const CallResult result = server.Call(method, "", server.token[roles[r]]);
      const bool may = Expected().at(method)[r] == 'x';
      EXPECT_EQ(result.reason == "ROLE_DENIED", !may)
          << method << " as " << roles[r] << ": " << result.reason;
      if (may) {
        EXPECT_THAT(result.reason, Not(HasSubstr("TOKEN_")));
      } else {
        EXPECT_EQ(result.status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
      }
    }
    const std::map<std::string, std::string> bad = {
        {"none", "TOKEN_MISSING"}, {"wrong", "TOKEN_INVALID"}, {"revoked", "TOKEN_REVOKED"}};
    for (const auto& [name, reason] : bad) {
      const CallResult result = server.Call(method, "", server.token[name]);
      EXPECT_EQ(result.status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << method << name;
      EXPECT_EQ(result.reason, reason) << method << " " << name;
    }
  }
}

TEST(Access, WithoutTokensTheSocketIsOpenToWhoeverReachesIt) {
  TestServer server(/*tokens=*/false);
  for (const std::string& method : MethodsOfDescriptors()) {
    const CallResult result = server.Call(method);
    EXPECT_THAT(result.reason, Not(AnyOf(HasSubstr("TOKEN_"), HasSubstr("ROLE_")))) << method;
  }
}

TEST(Access, ASecondAuthorizationHeaderIsRefused) {
  TestServer server(/*tokens=*/true);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + server.token["reader"]);
  EXPECT_EQ(server.Call("RunService/ListRuns", "", server.token["admin"], &context).reason,
            "TOKEN_INVALID");
  grpc::ClientContext basic;
  basic.AddMetadata("authorization", "Basic abc");
  EXPECT_EQ(server.Call("RunService/ListRuns", "", "", &basic).reason, "TOKEN_INVALID");
}

// What the log says: who, as what, what, and what came of it; and no secret.
TEST(Access, TheAuditLogNamesWhoDidWhat) {
  TestServer server(/*tokens=*/true);
  v1::CancelRunRequest cancel;
  cancel.set_name("runs/none");
  EXPECT_EQ(
      server.Call("RunService/CancelRun", cancel.SerializeAsString(), server.token["submitter"])
          .reason,
      "RUN_UNKNOWN");
  server.Call("RunService/CancelRun", cancel.SerializeAsString(), server.token["reader"]);
  server.Call("RunService/ListRuns", "", server.token["reader"]);
  server.Call("RunService/ListRuns", "", server.token["wrong"]);
  const std::string text = ReadFile(server.dir + "/audit.jsonl", 1 << 20).value();
  for (const auto& [name, token] : server.token) {
    if (!token.empty()) {
      EXPECT_THAT(text, Not(HasSubstr(token.substr(23)))) << name;
    }
  }
  std::vector<Json> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    lines.push_back(ParseJson(text.substr(at, text.find('\n', at) - at), "line").value());
  }
  ASSERT_EQ(lines.size(), 3u) << text;  // reading is not written down
  EXPECT_EQ(lines[0]["principal"], "submitter");
  EXPECT_EQ(lines[0]["method"], "RunService/CancelRun");
  EXPECT_EQ(lines[0]["resource"], "runs/none");
  EXPECT_EQ(lines[0]["outcome"], "NOT_FOUND");
  EXPECT_EQ(lines[1]["reason"], "ROLE_DENIED");
  EXPECT_EQ(lines[1]["role"], "reader");
  EXPECT_EQ(lines[2]["reason"], "TOKEN_INVALID");
  EXPECT_EQ(lines[2]["principal"], "");
}

// A worker's name is that of the token it came with first.
TEST(Access, AWorkerNameIsNotTakenOverByAnotherToken) {
  TestServer server(/*tokens=*/true);
  const std::string other =
      CreateToken(server.dir + "/tokens.json", "second", Role::kWorker, 0, 1).value();
  v1::SynchronizeRequest request;
  request.set_protocol_version(1);
  request.set_worker_id("gpu-1");
  request.set_incarnation("0123456789abcdef");
  request.set_tp(1);
  const std::string bytes = request.SerializeAsString();
  EXPECT_TRUE(server.Call("WorkerService/Synchronize", bytes, server.token["worker"]).status.ok());
  EXPECT_EQ(server.Call("WorkerService/Synchronize", bytes, other).reason, "WORKER_OF_ANOTHER");
  EXPECT_TRUE(server.Call("WorkerService/Synchronize", bytes, server.token["worker"]).status.ok());
}

// A call that runs when its token is revoked is ended.
TEST(Access, RevokingATokenEndsItsRunningCalls) {
  TestServer server(/*tokens=*/true);
  v1::SynchronizeRequest request;
  request.set_protocol_version(1);
  request.set_worker_id("gpu-1");
  request.set_incarnation("0123456789abcdef");
  request.set_tp(1);
  request.set_wait_ms(30'000);
  std::thread revoke([&] {
    ::usleep(300'000);
    EXPECT_TRUE(RevokeToken(server.dir + "/tokens.json", "worker", 5).ok());
  });
  const CallResult result =
      server.Call("WorkerService/Synchronize", request.SerializeAsString(), server.token["worker"]);
  revoke.join();
  EXPECT_EQ(result.status.error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace assay::rpc
