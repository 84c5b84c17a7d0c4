#include "server/rpc/evidence_service.h"

#include <map>
#include <set>

#include "server/core/plan.h"
#include "server/rpc/convert.h"
#include "server/rpc/gate.h"
#include "server/rpc/page.h"
#include "server/rpc/status.h"
#include "storage/base/digest.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::rpc {
namespace {

// The blobs that a result names, wherever it does: objects with "sha256" and "bytes".
void AddBlobs(const Json& value, v1::DisputedResult* out) {
  if (value.is_object() && value.contains("sha256") && value["sha256"].is_string() &&
      value.contains("bytes") && value["bytes"].is_number_integer()) {
    auto* blob = out->add_blobs();
    blob->set_sha256(value["sha256"].get<std::string>());
    blob->set_size(value["bytes"].get<uint64_t>());
  }
  if (!value.is_structured()) return;
  for (const Json& member : value) AddBlobs(member, out);
}

void AddResult(const std::string& worker, const std::string& json, bool accepted, int64_t time_ms,
               v1::Dispute* out) {
  auto* result = out->add_results();
  result->set_worker("workers/" + worker);
  result->set_result_json(json);
  result->set_accepted(accepted);
  result->set_time(time_ms);
  const auto parsed = ParseJson(json, "result");
  if (!parsed.ok()) return;
  result->set_sha256(Sha256Hex(CanonicalJson(*parsed).value_or("")));
  AddBlobs(*parsed, result);
}

// The accepted bytes, as the unit's worker gave them.
void AddDone(const UnitRow& unit, v1::Dispute* out) {
  for (const AttemptRow& attempt : unit.attempts) {
    if (attempt.outcome != "done") continue;
    return AddResult(attempt.worker, unit.result_json, /*accepted=*/true, attempt.end_ms, out);
  }
}

// State and accepted results of a unit that is known.
void Judge(const State& s, const UnitRow& unit, v1::Dispute* out) {
  AddDone(unit, out);
  bool open = false, same = false, differs = false;
  const auto& index = unit.run.empty() ? s.units_of_capture : s.units_of_run;
  const auto ids = index.find(unit.run.empty() ? unit.capture : unit.run);
  if (ids != index.end()) {
    for (const uint64_t id : ids->second) {
      const UnitRow& check = s.units.at(id);
      if (check.checks != unit.id) continue;
      open = open || core::IsOpen(check.state);
      if (check.state != UnitState::kDone) continue;
      const bool equal = check.result_sha256 == unit.result_sha256;
      same = same || equal;
      differs = differs || !equal;
      if (equal) AddDone(check, out);
    }
  }
  out->set_state(open      ? v1::Dispute::OPEN
                 : same    ? v1::Dispute::CONFIRMED
                 : differs ? v1::Dispute::REFUTED
                           : v1::Dispute::LATE);
}

v1::Dispute DisputeOf(const State& s, uint64_t id, const std::vector<EvidenceRow>& differing) {
  v1::Dispute out;
  if (const auto unit = s.units.find(id); unit != s.units.end()) {
    out.set_unit(ToProto(unit->second).name());
    out.set_kind(std::string(UnitKindName(unit->second.kind)));
    Judge(s, unit->second, &out);
  } else {
    out.set_unit("units/" + std::to_string(id));
    out.set_state(v1::Dispute::REMOVED);
  }
  for (const EvidenceRow& row : differing)
    AddResult(row.worker, row.result_json, /*accepted=*/false, row.time_ms, &out);
  return out;
}

// Units that `run_name` needs, those of its captures included.
absl::StatusOr<std::set<uint64_t>> UnitsOf(const State& s, const std::string& run_name) {
  ASSAY_ASSIGN_OR_RETURN(const std::string id, IdOf(run_name, "runs"));
  const auto run = s.runs.find(id);
  if (run == s.runs.end()) return NotFoundError("RUN_UNKNOWN", run_name + " does not exist");
  std::set<uint64_t> units;
  const auto add = [&](const auto& map, const std::string& key) {
    if (const auto it = map.find(key); it != map.end())
      units.insert(it->second.begin(), it->second.end());
  };
  add(s.units_of_run, id);
  add(s.units_of_capture, run->second.reference.capture);
  for (const CandidateRow& candidate : run->second.candidates)
    add(s.units_of_capture, candidate.source.capture);
  return units;
}

}  // namespace

// The token is the number of the first unit of the next page.
absl::Status EvidenceServiceImpl::DoList(const v1::ListDisputesRequest& request,
                                         v1::ListDisputesResponse* out) const {
  ASSAY_ASSIGN_OR_RETURN(const size_t most, PageSize(request.page().page_size()));
  ASSAY_ASSIGN_OR_RETURN(const auto from, ParseToken(request.page().page_token(), "disputes"));
  const bool all = request.run().empty();
  absl::StatusOr<std::set<uint64_t>> units = std::set<uint64_t>();
  if (!all) units = engine_->Read([&](const State& s) { return UnitsOf(s, request.run()); });
  ASSAY_RETURN_IF_ERROR(units.status());
  std::map<uint64_t, std::vector<EvidenceRow>> differing;
  size_t bytes = 0;
  uint64_t next = 0;
  const auto take = [&](EvidenceRow row) {
    if (!all && units->count(row.unit) == 0) return true;
    // The accepted results, listed beside this one, are about as large.
    const size_t size = 3 * row.result_json.size();
    if (differing.count(row.unit) == 0 && !differing.empty() &&
        (differing.size() >= most || bytes + size > kPageBytesMax)) {
      next = row.unit;
      return false;
    }
    bytes += size;
    differing[row.unit].push_back(std::move(row));
    return true;
  };
  ASSAY_RETURN_IF_ERROR(engine_->catalogue().ForEachEvidence(from.value_or(0), take));
  engine_->Read([&](const State& s) {
    for (const auto& [id, rows] : differing) *out->add_disputes() = DisputeOf(s, id, rows);
    return 0;
  });
  if (next != 0) out->set_next_page_token("disputes:" + std::to_string(next));
  return absl::OkStatus();
}

grpc::Status EvidenceServiceImpl::ListDisputes(grpc::ServerContext* context,
                                               const v1::ListDisputesRequest* request,
                                               v1::ListDisputesResponse* out) {
  Call call(gate_, context, "EvidenceService/ListDisputes");
  if (!call.admitted()) return call.refusal();
  return ToGrpc(DoList(*request, out), context, request->run());
}

}  // namespace assay::rpc
