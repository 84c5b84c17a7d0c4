#include "tests/sim/report.h"

#include <string>

#include "storage/base/digest.h"
#include "storage/report/report.h"

namespace assay::sim {
namespace {

// One position of one context: the smallest report there is.
ReportInputs SmallestInputs() {
  ReportInputs inputs;
  inputs.suite = {"suite", Sha256Hex("tokens"), Sha256Hex("manifest"), "all", 1, 2, 0, 0, 0};
  inputs.contexts = {{0, "s", "c", "p", 1}};
  for (OperandInfo* operand : {&inputs.reference, &inputs.candidate}) {
    operand->capture.content_sha256 = Sha256Hex("capture");
    operand->capture.cut_point = "after_final_rmsnorm_before_lm_head";
  }
  inputs.numeric.policy = "exact";
  inputs.numeric.backend = "cpu-bf16";
  inputs.numeric.kernel_identity = Json::object();
  HeadResult head;
  for (HeadIdentity* identity : {&head.reference_head, &head.candidate_head}) {
    identity->vocab = 10;
    identity->hidden = 4;
    identity->rounded_sha256 = Sha256Hex("head");
  }
  head.arrays.positions = 1;
  for (auto& values : head.arrays.f64) values = {0.5};
  for (auto& values : head.arrays.i32) values = {1};
  inputs.heads.emplace(std::string(kHeadOwn), head);
  return inputs;
}

}  // namespace

Json ReportOf(const State& state, const RunRow& run, size_t candidate) {
  static const Json form = BuildReport(SmallestInputs()).value_or(Json::object());
  std::string results = run.candidates[candidate].source.model;
  for (const uint64_t id : state.units_of_run.at(run.id)) {
    const UnitRow& unit = state.units.at(id);
    if (unit.state == UnitState::kDone && unit.checks == 0) results += unit.result_sha256;
  }
  Json report = form;
  report["candidate"]["capture"]["content_sha256"] = Sha256Hex(results);
  return report;
}

}  // namespace assay::sim
