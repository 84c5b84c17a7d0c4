
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/head.h"
#include "tests/golden/qf.h"
#include "worker/group/offline_replay.h"

namespace assay::golden {
namespace {

// A number is a multiple of 2^lowest, and rows sum to at most `row_sum` in absolute value.
struct Grid {
  int lowest = std::numeric_limits<int>::max();
  double largest = 0, row_sum = 0;
};

absl::Status AddToGrid(const TensorView& tensor, Grid* grid) {
  if (tensor.dtype != DType::kBF16 || tensor.shape.size() != 2) {
    return InvalidError("GOLDEN_INVALID", tensor.name + " is no BF16 matrix");
  }
  for (uint64_t row = 0; row < tensor.shape[0]; ++row) {
    double sum = 0;
    for (uint64_t i = row * tensor.shape[1]; i < (row + 1) * tensor.shape[1]; ++i) {
      const uint32_t bits =
          static_cast<uint32_t>(tensor.bytes[2 * i] | (tensor.bytes[2 * i + 1] << 8)) << 16;
      float value;
      memcpy(&value, &bits, sizeof(value));
      if (value == 0) continue;
      int exponent;
      auto mantissa = static_cast<int64_t>(std::ldexp(std::fabs(std::frexp(value, &exponent)), 8));
      for (exponent -= 8; mantissa % 2 == 0; mantissa /= 2) ++exponent;
      grid->lowest = std::min(grid->lowest, exponent);
      grid->largest = std::max(grid->largest, std::fabs(static_cast<double>(value)));
      sum += std::fabs(static_cast<double>(value));
    }
    grid->row_sum = std::max(grid->row_sum, sum);
  }
  return absl::OkStatus();
}

absl::StatusOr<Grid> GridOfHead(const std::string& path) {
  Grid grid;
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, FindHeadTensor(*file, ""));
  ASSAY_RETURN_IF_ERROR(AddToGrid(tensor, &grid));
  return grid;
}

absl::StatusOr<Grid> GridOfCapture(const std::string& dir) {
  Grid grid;
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(dir));
  for (const std::string& name : names) {
    if (name.rfind("hidden_", 0) != 0) continue;
    ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(JoinPath(dir, name)));
    ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file->Find(kHiddenTensorName));
    ASSAY_RETURN_IF_ERROR(AddToGrid(tensor, &grid));
  }
  return grid;
}

// Every partial sum of products is a multiple of the step and needs at most 24 bits.
bool Exact(const Grid& hidden, const Grid& head) {
  return hidden.row_sum * head.largest <= std::ldexp(1.0, hidden.lowest + head.lowest + 24);
}

// The manifest of a capture as if it had been made over `suite`, some of its contexts.
Json NarrowedManifest(const Json& manifest, const Suite& suite) {
  std::set<int64_t> wanted;
  for (const SuiteContext& context : suite.contexts) wanted.insert(context.index);
  Json out = manifest, records = Json::array(), indices = Json::array();
  for (const Json& record : manifest.at("captures")) {
    if (wanted.count(record.at("index").get<int64_t>()) == 0) continue;
    records.push_back(record);
    indices.push_back(record.at("index"));
  }
  out["suite_token_sha256"] = suite.suite_token_sha256;
  out["contexts"] = out["expected_contexts"] = records.size();
  out["captures"] = std::move(records);
  out["expected_indices"] = indices;
  out["capture_contract"]["suite_token_sha256"] = suite.suite_token_sha256;
  out["capture_contract"]["expected_indices"] = indices;
  out["capture_contract_sha256"] = Sha256Hex(PythonCanonJson(out["capture_contract"]));
  return out;
}

}  // namespace

std::string QfRun::Key() const {
  std::string out;
  for (const std::string& part :
       {reference, candidate, head, candidate_head, suite_token_sha256, filter,
        std::to_string(score_from), policy, std::to_string(vocab_chunk)}) {
    out += part + "\n";
  }
  return out;
}

QfRun RunOfReport(const Json& report, const std::string& policy) {
  QfRun run;
  run.reference = report.at("reference").get<std::string>();
  run.candidate = report.at("candidate").get<std::string>();
  run.head = report.at("head").get<std::string>();
  const Json own = report.value("candidate_head", Json());
  if (own.is_string()) run.candidate_head = own.get<std::string>();
  run.suite_token_sha256 = report.at("suite_token_sha256").get<std::string>();
  const Json filter = report.value("filter", Json());
  run.filter = filter.is_string() ? filter.get<std::string>() : "all";
  const Json window = report.value("scored_position_window", Json());
  if (window.is_object()) run.score_from = window.at("score_from").get<int64_t>();
  run.policy = policy;
  if (policy == "torch-bf16") {
    run.vocab_chunk = report.at("comparator").at("vocab_chunk").get<int64_t>();
  }
  return run;
}

// The suite itself or one of its shard views.
absl::StatusOr<std::string> QfReplays::SuiteFolder(const std::string& digest) const {
  const std::string suite = JoinPath(folder_.dir, "suite");
  std::vector<std::string> folders = {suite};
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(suite));
  for (const std::string& name : names) folders.push_back(JoinPath(suite, name));
  for (const std::string& dir : folders) {
    const std::string manifest = JoinPath(dir, "suite-manifest.json");
    if (!FileExists(manifest)) continue;
    ASSAY_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(manifest));
    if (json.value("suite_token_sha256", "") == digest) return dir;
  }
  return NotFoundError("GOLDEN_INVALID", "no suite or view has the digest " + digest);
}

// The capture that a report names. Shard captures are not kept: they are those of captures/ with
// the same name, recorded over the view.
absl::StatusOr<std::string> QfReplays::Capture(const std::string& path, const Suite& suite) {
  const std::string whole = JoinPath(folder_.dir, path);
  if (IsDirectory(whole)) return whole;
  const std::string kept = JoinPath(JoinPath(folder_.dir, "captures"), BaseName(path));
  ASSAY_ASSIGN_OR_RETURN(const Json manifest,
                         ReadJsonFile(JoinPath(kept, "capture-manifest.json")));
  const std::string dir =
      JoinPath(JoinPath(options_.work, "captures-" + std::to_string(runs_)), BaseName(path));
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(dir));
  const Json narrowed = NarrowedManifest(manifest, suite);
  ASSAY_RETURN_IF_ERROR(
      WriteFile(JoinPath(dir, "capture-manifest.json"), PythonPrettyJson(narrowed)));
  for (const Json& record : narrowed.at("captures")) {
    const std::string name = HiddenFileName(record.at("index").get<int64_t>());
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes,
                           ReadFile(JoinPath(kept, name), uint64_t{1} << 32));
    ASSAY_RETURN_IF_ERROR(WriteFile(JoinPath(dir, name), bytes));
  }
  return dir;
}

absl::StatusOr<bool> QfReplays::IsExact(const QfRun& run) const {
  const std::string own = run.candidate_head.empty() ? run.head : run.candidate_head;
  for (const auto& [capture, head] : {std::pair(run.reference, run.head), {run.candidate, own}}) {
    ASSAY_ASSIGN_OR_RETURN(
        const Grid hidden,
        GridOfCapture(JoinPath(JoinPath(folder_.dir, "captures"), BaseName(capture))));
    ASSAY_ASSIGN_OR_RETURN(const Grid weights, GridOfHead(JoinPath(folder_.dir, head)));
    if (!Exact(hidden, weights)) return false;
  }
  return true;
}

absl::StatusOr<QfResult> QfReplays::Make(const QfRun& run) {
  ++runs_;
  OfflineReplayRequest request;
  ASSAY_ASSIGN_OR_RETURN(request.suite_dir, SuiteFolder(run.suite_token_sha256));
  ASSAY_ASSIGN_OR_RETURN(const Suite suite, ReadSuite(request.suite_dir));
  ASSAY_ASSIGN_OR_RETURN(request.reference, Capture(run.reference, suite));
  ASSAY_ASSIGN_OR_RETURN(const std::string candidate, Capture(run.candidate, suite));
  request.candidates = {{"run", candidate}};
  request.head = JoinPath(folder_.dir, run.head);
  if (!run.candidate_head.empty()) {
    request.candidate_heads = {{"run", JoinPath(folder_.dir, run.candidate_head)}};
  }
  request.filter = run.filter;
  request.score_from = run.score_from;
  request.policy = run.policy;
  if (run.vocab_chunk > 0) request.vocab_chunk = run.vocab_chunk;
  request.out = JoinPath(options_.work, "replay-" + std::to_string(runs_));
  OfflineRanks ranks;
  ranks.tp = options_.tp;
  ranks.threads = options_.threads;
  ranks.rank_program = options_.rank_program;
  ASSAY_ASSIGN_OR_RETURN(const OfflineReplayResult done,
                         OfflineReplay(request, ranks, OfflineHooks()));
  ASSAY_RETURN_IF_ERROR(done.statuses.at(0));
  const std::string mode = run.candidate_head.empty() ? "shared" : "own";
  QfResult out;
  const Json& report = done.candidates.at(0).report;
  out.head = report.at("heads").at(mode);
  const std::string folder = JoinPath(JoinPath(JoinPath(request.out, "run"), "positions"), mode);
  ASSAY_ASSIGN_OR_RETURN(out.arrays,
                         ReadPositionFolder(folder, report.at("coverage").at("positions")));
  ASSAY_ASSIGN_OR_RETURN(out.exact, IsExact(run));
  return out;
}

absl::StatusOr<QfResult> QfReplays::Get(const QfRun& run) {
  const auto found = results_.find(run.Key());
  if (found != results_.end()) return found->second;
  ASSAY_ASSIGN_OR_RETURN(QfResult made, Make(run));
  return results_.emplace(run.Key(), std::move(made)).first->second;
}

}  // namespace assay::golden
