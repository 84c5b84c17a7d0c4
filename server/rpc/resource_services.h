// Suites, models, heads, reports, receipts: adapters over the engine.

#ifndef ASSAY_SERVER_RPC_RESOURCE_SERVICES_H_
#define ASSAY_SERVER_RPC_RESOURCE_SERVICES_H_

#include "assay/v1/head.grpc.pb.h"
#include "assay/v1/model.grpc.pb.h"
#include "assay/v1/report.grpc.pb.h"
#include "assay/v1/suite.grpc.pb.h"
#include "server/engine/engine.h"

namespace assay::rpc {

class Gate;

class SuiteServiceImpl final : public v1::SuiteService::Service {
 public:
  SuiteServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status CreateSuite(grpc::ServerContext*, const v1::CreateSuiteRequest*,
                           v1::Suite*) override;
  grpc::Status GetSuite(grpc::ServerContext*, const v1::GetSuiteRequest*, v1::Suite*) override;
  grpc::Status ListSuites(grpc::ServerContext*, const v1::ListSuitesRequest*,
                          v1::ListSuitesResponse*) override;

 private:
  Engine* engine_;
  Gate* gate_;
};

class ModelServiceImpl final : public v1::ModelService::Service {
 public:
  ModelServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status CreateModel(grpc::ServerContext*, const v1::CreateModelRequest*,
                           v1::Model*) override;
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*, v1::Model*) override;
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse*) override;

 private:
  absl::StatusOr<v1::Model> Find(const std::string& id) const;
  v1::Model Describe(const ModelRow& row) const;
  Engine* engine_;
  Gate* gate_;
};

class HeadServiceImpl final : public v1::HeadService::Service {
 public:
  HeadServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status CreateHead(grpc::ServerContext*, const v1::CreateHeadRequest*, v1::Head*) override;
  grpc::Status GetHead(grpc::ServerContext*, const v1::GetHeadRequest*, v1::Head*) override;
  grpc::Status ListHeads(grpc::ServerContext*, const v1::ListHeadsRequest*,
                         v1::ListHeadsResponse*) override;

 private:
  Engine* engine_;
  Gate* gate_;
};

class ReportServiceImpl final : public v1::ReportService::Service {
 public:
  ReportServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status GetReport(grpc::ServerContext*, const v1::GetReportRequest*, v1::Report*) override;
  grpc::Status ListReports(grpc::ServerContext*, const v1::ListReportsRequest*,
                           v1::ListReportsResponse*) override;

 private:
  Engine* engine_;
  Gate* gate_;
};

class ReceiptServiceImpl final : public v1::ReceiptService::Service {
 public:
  ReceiptServiceImpl(Engine* engine, Gate* gate) : engine_(engine), gate_(gate) {}
  grpc::Status GetReceipt(grpc::ServerContext*, const v1::GetReceiptRequest*,
                          v1::Receipt*) override;
  grpc::Status ListReceipts(grpc::ServerContext*, const v1::ListReceiptsRequest*,
                            v1::ListReceiptsResponse*) override;
  grpc::Status GetPublicKey(grpc::ServerContext*, const v1::GetPublicKeyRequest*,
                            v1::PublicKey*) override;
  grpc::Status GetLogProof(grpc::ServerContext*, const v1::GetLogProofRequest*,
                           v1::LogProof*) override;

 private:
  Engine* engine_;
  Gate* gate_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_RESOURCE_SERVICES_H_
