// Report inputs for tests, made from the known answers of tests/data/smollm2.

#ifndef ASSAY_STORAGE_REPORT_REPORT_TEST_DATA_H_
#define ASSAY_STORAGE_REPORT_REPORT_TEST_DATA_H_

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/format/safetensors.h"
#include "storage/report/report.h"

namespace assay {

inline std::string SmolDir() {
  return std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/tests/data/smollm2";
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) throw std::runtime_error(std::string(value.status().message()));
  return std::move(value).value();
}

// Arrays of a candidate as the fixture has them. accept_rate and rank_top1_ref are not in it; they
// are set to 1/2, and to 0 where the top-1 agree, else 1 + position mod 12.
inline PositionArrays SmolArrays(const std::string& candidate) {
  const auto file = Must(
      SafetensorsFile::Open(SmolDir() + "/known-answers/" + candidate + ".oracle64.safetensors"));
  PositionArrays arrays;
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    if (static_cast<F64Output>(i) == F64Output::kAcceptRate) continue;
    const TensorView t = Must(file->Find(kF64Outputs[i]));
    arrays.f64[i] = Must(F64FromBytes(
        {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()}, kF64Outputs[i]));
    arrays.positions = arrays.f64[i].size();
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    if (static_cast<I32Output>(i) == I32Output::kRankTop1Ref) continue;
    const TensorView t = Must(file->Find(kI32Outputs[i]));
    arrays.i32[i] = Must(I32FromBytes(
        {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()}, kI32Outputs[i]));
  }
  arrays.f64[static_cast<size_t>(F64Output::kAcceptRate)].assign(arrays.positions, 0.5);
  auto& rank = arrays.i32[static_cast<size_t>(I32Output::kRankTop1Ref)];
  for (size_t i = 0; i < arrays.positions; ++i) {
    const bool same = arrays[I32Output::kTop1Ref][i] == arrays[I32Output::kTop1Cand][i];
    rank.push_back(same ? 0 : 1 + static_cast<int32_t>(i % 12));
  }
  return arrays;
}

inline OperandInfo TestOperand(const std::string& name) {
  OperandInfo operand;
  operand.model = {
      {"files", {{{"path", name + ".gguf"}, {"size", 1000}, {"sha256", Sha256Hex(name)}}}}};
  operand.model_identity = Sha256Hex("identity of " + name);
  operand.architecture = "LlamaForCausalLM";
  operand.family = "llama";
  operand.capture.content_sha256 = Sha256Hex("capture of " + name);
  operand.capture.schema = "qwen38-fidelity-capture/2";
  operand.capture.cut_point = "after_final_rmsnorm_before_lm_head";
  operand.capture.engine = {{"engine", "native"}};
  operand.capture.stack = {{"isa", "avx2"}};
  operand.sizes.file_bytes = 98362432;
  operand.sizes.body_weights = 106168320;
  operand.sizes.body_bits_per_weight = 5.0;
  operand.sizes.head_bits_per_weight = 8.5;
  operand.sizes.embedding_bits_per_weight = 8.5;
  return operand;
}

inline HeadIdentity TestHead() {
  HeadIdentity head;
  head.vocab = 49152;
  head.hidden = 576;
  head.rounded_sha256 = Sha256Hex("head");
  head.original_dtype = "Q8_0";
  head.rounding = "bf16-rne";
  head.tied = true;
  return head;
}

inline ReportInputs SmolInputs(const std::string& candidate) {
  ReportInputs inputs;
  const Json manifest = Must(ReadJsonFile(SmolDir() + "/suite/suite-manifest.json"));
  inputs.suite.schema = manifest.at("schema");
  inputs.suite.suite_token_sha256 = manifest.at("suite_token_sha256");
  inputs.suite.manifest_sha256 = Must(Sha256File(SmolDir() + "/suite/suite-manifest.json"));
  inputs.suite.context_length = 64;
  for (const Json& row : manifest.at("context_index")) {
    inputs.contexts.push_back(
        {row.at("index"), row.at("stratum"), row.at("source_cluster"), row.at("partition"), 63});
  }
  inputs.suite.suite_contexts = inputs.contexts.size();
  inputs.reference = TestOperand("reference");
  inputs.candidate = TestOperand(candidate);
  inputs.numeric.policy = "exact";
  inputs.numeric.backend = "cpu-bf16";
  inputs.numeric.kernel_identity = {{"library", "oneDNN"}};
  inputs.heads["own"] = {TestHead(), TestHead(), SmolArrays(candidate)};
  RepeatedCapture repeat;
  repeat.operand = "reference";
  repeat.positions_per_context = 63;
  repeat.contexts = {{1, Sha256Hex("a"), Sha256Hex("a")}, {7, Sha256Hex("b"), Sha256Hex("b")}};
  inputs.repeats.push_back(repeat);
  return inputs;
}

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_REPORT_TEST_DATA_H_
