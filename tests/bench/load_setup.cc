#include "tests/bench/load_setup.h"

#include <cstdio>

#include "assay/v1/capture.grpc.pb.h"
#include "assay/v1/head.grpc.pb.h"
#include "assay/v1/run.grpc.pb.h"
#include "assay/v1/suite.grpc.pb.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/format/capture.h"
#include "storage/format/safetensors.h"
#include "storage/format/suite.h"
#include "storage/report/positions.h"
#include "tests/bench/bench_util.h"
#include "tests/bench/coordinator.h"

namespace assay::bench {
namespace {

constexpr uint64_t kWidth = 4, kVocab = 49'152;

void Need(const grpc::Status& status, const char* what) {
  if (!status.ok()) Die(std::string(what) + " failed: " + status.error_message());
}

std::string Upload(const std::shared_ptr<grpc::Channel>& channel, const std::string& bytes) {
  const std::string sha256 = Sha256Hex(bytes);
  UploadBlob(channel, bytes, sha256);
  return sha256;
}

// The arrays of the comparisons of one context, one position each.
std::string Positions(const Json& unit) {
  SafetensorsBuilder builder;
  const double half = 0.5;
  const int32_t one = 1;
  std::vector<uint8_t> f64(sizeof(half)), i32(sizeof(one));
  std::copy_n(reinterpret_cast<const uint8_t*>(&half), sizeof(half), f64.begin());
  std::copy_n(reinterpret_cast<const uint8_t*>(&one), sizeof(one), i32.begin());
  char index[16];
  std::snprintf(index, sizeof(index), "%06d", unit["contexts"][0]["index"].get<int>());
  for (const Json& comparison : unit["comparisons"]) {
    const std::string prefix = comparison["id"].get<std::string>() + "|" + index + "|";
    for (const std::string_view output : kF64Outputs)
      builder.Add(prefix + std::string(output), DType::kF64, {1}, f64);
    for (const std::string_view output : kI32Outputs)
      builder.Add(prefix + std::string(output), DType::kI32, {1}, i32);
  }
  return builder.Build();
}

}  // namespace

Load::Load(std::shared_ptr<grpc::Channel> channel, const std::string& suite_dir)
    : channel_(std::move(channel)) {
  const auto suite = ReadSuite(suite_dir);
  if (!suite.ok()) Die("cannot read the suite " + suite_dir);
  tokens_ = suite->suite_token_sha256;
  context_length_ = suite->context_length;
  for (const SuiteContext& context : suite->contexts) {
    Upload(channel_, ReadFile(suite_dir + "/" + context.file, 1 << 20).value());
    indices_.push_back(context.index);
  }
  {
    grpc::ClientContext context;
    v1::CreateSuiteRequest request;
    request.set_manifest_sha256(
        Upload(channel_, ReadFile(suite_dir + "/suite-manifest.json", 1 << 26).value()));
    v1::Suite out;
    Need(v1::SuiteService::NewStub(channel_)->CreateSuite(&context, request, &out), "CreateSuite");
    suite_ = out.name();
  }
  SafetensorsBuilder builder;
  builder.Add("lm_head.weight", DType::kBF16, {kVocab, kWidth},
              std::vector<uint8_t>(2 * kVocab * kWidth, 0x3f));
  grpc::ClientContext context;
  v1::CreateHeadRequest request;
  request.set_file_sha256(Upload(channel_, builder.Build()));
  v1::Head out;
  Need(v1::HeadService::NewStub(channel_)->CreateHead(&context, request, &out), "CreateHead");
  head_ = out.name();
  reference_ = Ingest("reference", 0x3f80);
  candidate_ = Ingest("candidate", 0x3f00);
}

std::string Load::Ingest(const std::string& name, uint16_t value) const {
  grpc::ClientContext context;
  v1::Capture capture;
  const auto writer = v1::CaptureService::NewStub(channel_)->Ingest(&context, &capture);
  v1::IngestRequest request;
  auto* header = request.mutable_header();
  header->set_suite(suite_);
  header->set_suite_token_sha256(tokens_);
  header->set_stack_json(R"({"engine":"bench"})");
  header->set_candidate_identity_json(Json{{"name", name}}.dump());
  writer->Write(request);
  const uint64_t rows = static_cast<uint64_t>(context_length_) - 1;
  for (const int64_t index : indices_) {
    const std::vector<uint16_t> values(rows * kWidth, static_cast<uint16_t>(value + index));
    const std::string bytes = BuildHiddenFile(values, rows, kWidth).value();
    auto* chunk = request.mutable_chunk();
    chunk->set_index(index);
    chunk->set_sha256(Sha256Hex(bytes));
    chunk->set_size(bytes.size());
    chunk->set_data(bytes);
    chunk->set_last(true);
    if (!writer->Write(request)) break;
  }
  writer->WritesDone();
  Need(writer->Finish(), "Ingest");
  return capture.name();
}

std::string Load::CreateRun(const std::string& request_id) const {
  v1::CreateRunRequest request;
  request.set_request_id(request_id);
  v1::RunSpec* spec = request.mutable_spec();
  spec->set_suite(suite_);
  spec->set_limit(kUnitsPerRun);
  spec->set_unit_contexts(1);
  spec->set_score_from(context_length_ - 2);
  spec->set_fresh(true);
  spec->mutable_reference()->set_capture(reference_);
  spec->mutable_reference()->set_head(head_);
  auto* candidate = spec->add_candidates();
  candidate->set_label("c");
  candidate->mutable_source()->set_capture(candidate_);
  candidate->mutable_source()->set_head(head_);
  grpc::ClientContext context;
  v1::Run run;
  Need(v1::RunService::NewStub(channel_)->CreateRun(&context, request, &run), "CreateRun");
  if (run.units_total() != 0 && run.units_total() != kUnitsPerRun)
    Die("a run has " + std::to_string(run.units_total()) + " units");
  return run.name();
}

std::string Load::ResultOf(const std::string& unit_json) {
  const auto unit = ParseJson(unit_json, "unit");
  if (!unit.ok() || (*unit)["kind"] != "replay" || (*unit)["contexts"].size() != 1)
    Die("not a replay of one context: " + unit_json);
  std::string& result = results_[(*unit)["contexts"][0]["index"].get<int64_t>()];
  if (result.empty()) {
    const std::string bytes = Positions(*unit);
    result = Json{{"sha256", Upload(channel_, bytes)},
                  {"bytes", bytes.size()},
                  {"backend", "cpu-f32"},
                  {"rounded_operands", Json::array()},
                  {"maxima", Json::object()}}
                 .dump();
  }
  return result;
}

}  // namespace assay::bench
