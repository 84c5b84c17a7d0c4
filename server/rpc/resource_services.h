// Suites, models, heads, reports, receipts: adapters over the engine.

#ifndef ASSAY_SERVER_RPC_RESOURCE_SERVICES_H_
#define ASSAY_SERVER_RPC_RESOURCE_SERVICES_H_

#include "assay/v1/head.grpc.pb.h"
#include "assay/v1/model.grpc.pb.h"
#include "assay/v1/report.grpc.pb.h"
#include "assay/v1/suite.grpc.pb.h"
#include "server/engine/engine.h"

namespace assay::rpc {

class SuiteServiceImpl final : public v1::SuiteService::Service {
 public:
  explicit SuiteServiceImpl(Engine* engine) : engine_(engine) {}
  grpc::Status CreateSuite(grpc::ServerContext*, const v1::CreateSuiteRequest*,
                           v1::Suite*) override;
  grpc::Status GetSuite(grpc::ServerContext*, const v1::GetSuiteRequest*, v1::Suite*) override;
  grpc::Status ListSuites(grpc::ServerContext*, const v1::ListSuitesRequest*,
                          v1::ListSuitesResponse*) override;

 private:
  Engine* engine_;
};

class ModelServiceImpl final : public v1::ModelService::Service {
 public:
  explicit ModelServiceImpl(Engine* engine) : engine_(engine) {}
  grpc::Status CreateModel(grpc::ServerContext*, const v1::CreateModelRequest*,
                           v1::Model*) override;
  grpc::Status GetModel(grpc::ServerContext*, const v1::GetModelRequest*, v1::Model*) override;
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse*) override;

 private:
  absl::StatusOr<v1::Model> Find(const std::string& id) const;
  v1::Model Describe(const ModelRow& row) const;
  Engine* engine_;
};

class HeadServiceImpl final : public v1::HeadService::Service {
 public:
  explicit HeadServiceImpl(Engine* engine) : engine_(engine) {}
  grpc::Status CreateHead(grpc::ServerContext*, const v1::CreateHeadRequest*, v1::Head*) override;
  grpc::Status GetHead(grpc::ServerContext*, const v1::GetHeadRequest*, v1::Head*) override;
  grpc::Status ListHeads(grpc::ServerContext*, const v1::ListHeadsRequest*,
                         v1::ListHeadsResponse*) override;

 private:
  Engine* engine_;
};

class ReportServiceImpl final : public v1::ReportService::Service {
 public:
  explicit ReportServiceImpl(Engine* engine) : engine_(engine) {}
  grpc::Status GetReport(grpc::ServerContext*, const v1::GetReportRequest*, v1::Report*) override;
  grpc::Status ListReports(grpc::ServerContext*, const v1::ListReportsRequest*,
                           v1::ListReportsResponse*) override;

 private:
  Engine* engine_;
};

class ReceiptServiceImpl final : public v1::ReceiptService::Service {
 public:
  explicit ReceiptServiceImpl(Engine* engine) : engine_(engine) {}
  grpc::Status GetReceipt(grpc::ServerContext*, const v1::GetReceiptRequest*,
                          v1::Receipt*) override;
  grpc::Status ListReceipts(grpc::ServerContext*, const v1::ListReceiptsRequest*,
                            v1::ListReceiptsResponse*) override;
  grpc::Status GetPublicKey(grpc::ServerContext*, const v1::GetPublicKeyRequest*,
                            v1::PublicKey*) override;

 private:
  Engine* engine_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_RESOURCE_SERVICES_H_
