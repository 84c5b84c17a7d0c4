// Kind "smollm2": a real model against stored rows and known answers (see the README of the
// folder). The model's path is in ASSAY_SMOLLM2_GGUF, that of its Q4_0 variant, which is optional,
// in ASSAY_SMOLLM2_Q4_0_GGUF. Every limit is read from tolerances.json.

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "storage/base/bf16.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/suite.h"
#include "storage/report/positions.h"
#include "tests/golden/golden.h"
#include "worker/group/offline_capture.h"
#include "worker/group/offline_replay.h"

namespace assay::golden {
namespace {

// What the fixture's candidates are for the engine; "" = a file of its own.
const std::map<std::string, std::string> kTransforms = {
    {"reference", ""},
    {"int8-channel", "rtn:bits=8,group=channel"},
    {"int4-g32", "rtn:bits=4,group=32"}};
const char* const kCandidates[] = {"int8-channel", "int4-g32", "q4_0"};

double Mean(const std::vector<double>& values) {
  long double sum = 0;
  for (const double v : values) sum += v;
  return static_cast<double>(sum / static_cast<long double>(values.size()));
}

// Linear interpolation between order statistics.
double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const size_t low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

std::string Beyond(const std::string& what, double value, double limit) {
  if (value <= limit) return "";
  char text[160];
  snprintf(text, sizeof(text), "%s is %.4g, the limit is %.4g", what.c_str(), value, limit);
  return text;
}

double Relative(double got, double want) { return std::fabs(got - want) / std::fabs(want); }

class Smollm2 {
 public:
  explicit Smollm2(const Options& options) : options_(options) {
    ranks_.tp = options.tp;
    ranks_.threads = options.threads;
    ranks_.rank_program = options.rank_program;
  }
  int Run();

 private:
  // Outputs of one replayed candidate, suite order of the selected contexts.
  struct Result {
    PositionArrays arrays;
    std::vector<size_t> contexts;  // rows of the known answers
  };
  absl::Status Load();
  absl::StatusOr<std::map<std::string, Result>> Replay(const std::string& reference,
                                                       const std::vector<std::string>& captures,
                                                       const std::string& policy,
                                                       const std::string& filter);
  std::string Stored(const std::string& forward, const std::string& model) const {
    return JoinPath(JoinPath(JoinPath(options_.dir, "captures"), forward), model);
  }
  std::string Engine(const std::string& model) const {
    return JoinPath(JoinPath(options_.work, "engine"), model);
  }
  bool HaveModel(const std::string& model) const { return model != "q4_0" || !q4_0_.empty(); }
  absl::StatusOr<std::vector<double>> Known(const std::string& candidate,
                                            const std::string& forward, const std::string& field,
                                            const std::vector<size_t>& contexts) const;
  void StoredRows(const std::string& forward, const std::string& policy);
  std::string CheckStored(const std::string& candidate, const std::string& forward,
                          const Result& result, const std::string& policy) const;
  std::string CaptureModel(const std::string& model);
  std::string CheckRows(const std::string& model) const;
  std::string CheckNoiseFloor(const std::string& model);
  std::string CheckEngine(const std::string& candidate, const Result& result) const;
  std::string CheckEngineContexts(const std::string& candidate, const std::vector<double>& got,
                                  const std::vector<double>& want, const Json& limit) const;
  void EngineResults();

  const Options& options_;
  OfflineRanks ranks_;
  std::string gguf_, q4_0_;
  Suite suite_;
  Json tolerances_, summary_;
  Tally tally_;
  int replays_ = 0;
};

absl::Status Smollm2::Load() {
  const char* gguf = getenv("ASSAY_SMOLLM2_GGUF");
  if (gguf == nullptr || !FileExists(gguf)) {
    return NotFoundError("GOLDEN_MODEL_MISSING",
                         "set ASSAY_SMOLLM2_GGUF to SmolLM2-135M-Instruct.Q4_1.gguf");
  }
  gguf_ = gguf;
  if (const char* q4_0 = getenv("ASSAY_SMOLLM2_Q4_0_GGUF")) q4_0_ = q4_0;
  ASSAY_ASSIGN_OR_RETURN(suite_, ReadSuite(JoinPath(options_.dir, "suite")));
  ASSAY_ASSIGN_OR_RETURN(tolerances_, ReadJsonFile(JoinPath(options_.dir, "tolerances.json")));
  ASSAY_ASSIGN_OR_RETURN(summary_,
                         ReadJsonFile(JoinPath(options_.dir, "known-answers/summary.json")));
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, Smollm2::Result>> Smollm2::Replay(
    const std::string& reference, const std::vector<std::string>& captures,
    const std::string& policy, const std::string& filter) {
  OfflineReplayRequest request;
  request.reference = reference;
  for (const std::string& capture : captures) request.candidates.push_back({"", capture});
  request.head = gguf_;
  request.suite_dir = JoinPath(options_.dir, "suite");
  request.filter = filter;
  request.out = JoinPath(options_.work, "replay-" + std::to_string(replays_++));
  request.policy = policy;
  ASSAY_ASSIGN_OR_RETURN(const OfflineReplayResult done,
                         OfflineReplay(request, ranks_, OfflineHooks()));
  for (const absl::Status& status : done.statuses) ASSAY_RETURN_IF_ERROR(status);
  ASSAY_ASSIGN_OR_RETURN(const std::vector<size_t> selected, SelectContexts(suite_, filter));
  const uint64_t positions = selected.size() * (static_cast<uint64_t>(suite_.context_length) - 1);
  std::map<std::string, Result> out;
  for (const SummaryCandidate& candidate : done.candidates) {
    Result result;
    const std::string folder = JoinPath(JoinPath(request.out, candidate.label), "positions/shared");
    ASSAY_ASSIGN_OR_RETURN(result.arrays, ReadPositionFolder(folder, positions));
    result.contexts = selected;
    out[candidate.label] = std::move(result);
  }
  return out;
}

absl::StatusOr<std::vector<double>> Smollm2::Known(const std::string& candidate,
                                                   const std::string& forward,
                                                   const std::string& field,
                                                   const std::vector<size_t>& contexts) const {
  const std::string path =
      JoinPath(options_.dir, "known-answers/" + candidate + "." + forward + ".safetensors");
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  std::vector<double> all;
  if (field.rfind("top1", 0) == 0 || field.rfind("ties", 0) == 0) {
    ASSAY_ASSIGN_OR_RETURN(const std::vector<int64_t> ints, Ints(*file, field));
    all.assign(ints.begin(), ints.end());
  } else {
    ASSAY_ASSIGN_OR_RETURN(all, Doubles(*file, field));
  }
  const size_t rows = static_cast<size_t>(suite_.context_length) - 1;
  std::vector<double> out;
  for (const size_t context : contexts) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(context * rows);
    out.insert(out.end(), begin, begin + static_cast<ptrdiff_t>(rows));
  }
  return out;
}

std::string Smollm2::CheckStored(const std::string& candidate, const std::string& forward,
                                 const Result& result, const std::string& policy) const {
  const Json& all = tolerances_.at("replay_from_stored_rows");
  const Json& audit = all.at("float64_dot_products");
  const Json& limit = all.at("float32_accumulated_logits").at("limit");
  const auto want = Known(candidate, forward, "kl_ref_cand", result.contexts);
  const auto nll = Known(candidate, forward, "nll_cand", result.contexts);
  const auto top = Known(candidate, forward, "top1_cand", result.contexts);
  for (const auto* read : {&want, &nll, &top}) {
    if (!read->ok()) return Describe(read->status());
  }
  const std::vector<double>& kl = result.arrays[F64Output::kKlRefCand];
  std::string problem;
  for (size_t i = 0; i < kl.size() && problem.empty(); ++i) {
    const double k = (*want)[i];
    const double bound =
        policy == "fp64-audit"
            ? audit.at("kl_abs").get<double>() + audit.at("kl_rel").get<double>() * k
            : limit.at("kl_abs_over_sqrt_kl").get<double>() * std::sqrt(k) + 1e-9;
    problem = Beyond("|dKL| at position " + std::to_string(i), std::fabs(kl[i] - k), bound);
    if (!problem.empty()) break;
    problem = Beyond("|dNLL| at position " + std::to_string(i),
                     std::fabs(result.arrays[F64Output::kNllCand][i] - (*nll)[i]),
                     limit.at("nll_abs").get<double>());
    if (result.arrays[I32Output::kTop1Cand][i] != (*top)[i]) {
      problem = "top-1 differs at position " + std::to_string(i);
    }
  }
  if (!problem.empty()) return problem;
  // The limit is for the whole panel; fewer positions average the same noise less well.
  const double panel =
      static_cast<double>(suite_.contexts.size()) * static_cast<double>(suite_.context_length - 1);
  return Beyond("mean KL, relative", Relative(Mean(kl), Mean(*want)),
                limit.at("token_mean_kld_rel").get<double>() *
                    std::sqrt(panel / static_cast<double>(kl.size())));
}

// Rows that other forwards made: only the replay is under test.
void Smollm2::StoredRows(const std::string& forward, const std::string& policy) {
  std::vector<std::string> captures;
  for (const std::string candidate : kCandidates) {
    captures.push_back(Stored(forward, candidate));
  }
  const auto results = Replay(Stored(forward, "reference"), captures, policy, "sentinel");
  for (const std::string candidate : kCandidates) {
    const std::string name = "stored " + forward + " " + policy + " " + candidate;
    tally_.Case(name, results.ok() ? CheckStored(candidate, forward, results->at(candidate), policy)
                                   : Describe(results.status()));
  }
}

std::string Smollm2::CaptureModel(const std::string& model) {
  OfflineCaptureRequest request;
  request.model = model == "q4_0" ? ModelSpec{q4_0_, ""} : ModelSpec{gguf_, kTransforms.at(model)};
  request.suite_dir = JoinPath(options_.dir, "suite");
  request.out = Engine(model);
  const auto done = OfflineCapture(request, ranks_, OfflineHooks());
  return done.ok() ? "" : Describe(done.status());
}

// Row elements of the engine against the oracle's, sentinel contexts.
std::string Smollm2::CheckRows(const std::string& model) const {
  const Json& limit = tolerances_.at("float32_engine_against_oracle64").at("limit");
  const auto sentinels = SelectContexts(suite_, "sentinel");
  if (!sentinels.ok()) return Describe(sentinels.status());
  uint64_t differing = 0, total = 0;
  double worst = 0;
  for (const size_t position : *sentinels) {
    const std::string name = HiddenFileName(suite_.contexts[position].index);
    const auto a = SafetensorsFile::Open(JoinPath(Stored("oracle64", model), name));
    const auto b = SafetensorsFile::Open(JoinPath(Engine(model), name));
    if (!a.ok()) return Describe(a.status());
    if (!b.ok()) return Describe(b.status());
    const auto want = (*a)->Find(kHiddenTensorName), got = (*b)->Find(kHiddenTensorName);
    if (!want.ok() || !got.ok() || want->shape != got->shape) return name + ": shapes differ";
    const size_t rows = want->shape[0], width = want->shape[1];
    for (size_t r = 0; r < rows; ++r) {
      double square = 0, beyond = 0;
      for (size_t i = r * width; i < (r + 1) * width; ++i) {
        uint16_t x, y;
        memcpy(&x, want->bytes.data() + 2 * i, 2);
        memcpy(&y, got->bytes.data() + 2 * i, 2);
        const double value = Bf16ToFloat(x);
        square += value * value;
        if (x == y) continue;
        ++differing;
        const bool one_ulp = (x ^ y) < 0x8000 && std::abs(int{x} - int{y}) == 1;
        if (!one_ulp) beyond = std::max(beyond, std::fabs(value - Bf16ToFloat(y)));
      }
      worst = std::max(worst, beyond / std::sqrt(square / static_cast<double>(width)));
    }
    total += rows * width;
  }
  const std::string problem = Beyond("share of differing elements",
                                     static_cast<double>(differing) / static_cast<double>(total),
                                     limit.at("bf16_elements_differing").get<double>());
  if (!problem.empty()) return problem;
  return Beyond("an element beyond one ulp, over the row's RMS", worst,
                limit.at("element_beyond_one_ulp_over_row_rms").get<double>());
}

// KL(oracle rows || engine rows) of one model: what a wrong forward pass cannot hide from.
std::string Smollm2::CheckNoiseFloor(const std::string& model) {
  const Json& limit = tolerances_.at("float32_engine_against_oracle64").at("limit");
  const auto results = Replay(Stored("oracle64", model), {Engine(model)}, "exact", "sentinel");
  if (!results.ok()) return Describe(results.status());
  const std::vector<double>& kl = results->at(model).arrays[F64Output::kKlRefCand];
  printf("look engine %s: mean KL(oracle || engine) %.3g\n", model.c_str(), Mean(kl));
  std::string problem =
      Beyond("mean KL(oracle || engine)", Mean(kl), limit.at("noise_floor_mean_kld").get<double>());
  if (problem.empty()) {
    problem = Beyond("99 % KL(oracle || engine)", Quantile(kl, 0.99),
                     limit.at("noise_floor_p99_kld").get<double>());
  }
  if (problem.empty()) {
    problem = Beyond("max KL(oracle || engine)", *std::max_element(kl.begin(), kl.end()),
                     limit.at("noise_floor_max_kld").get<double>());
  }
  return problem;
}

std::string Smollm2::CheckEngineContexts(const std::string& candidate,
                                         const std::vector<double>& got,
                                         const std::vector<double>& want, const Json& limit) const {
  std::string problem = Beyond("mean KL, relative", Relative(Mean(got), Mean(want)),
                               limit.at("token_mean_kld_rel").at(candidate).get<double>());
  const size_t rows = static_cast<size_t>(suite_.context_length) - 1;
  for (size_t begin = 0; begin < got.size() && problem.empty(); begin += rows) {
    const auto part = [&](const std::vector<double>& all) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(begin);
      return Mean(std::vector<double>(first, first + static_cast<ptrdiff_t>(rows)));
    };
    problem = Beyond("mean KL of context " + std::to_string(begin / rows) + ", relative",
                     Relative(part(got), part(want)),
                     limit.at("context_mean_kld_rel").at(candidate).get<double>());
  }
  for (const double q : {0.5, 0.99}) {
    if (!problem.empty()) break;
    problem = Beyond("quantile " + std::to_string(q) + " of KL, relative",
                     Relative(Quantile(got, q), Quantile(want, q)),
                     limit.at("p50_p99_kld_rel").get<double>());
  }
  return problem;
}

std::string Smollm2::CheckEngine(const std::string& candidate, const Result& result) const {
  const Json& limit = tolerances_.at("float32_engine_against_oracle64").at("limit");
  std::map<std::string, std::vector<double>> want;
  for (const char* field : {"kl_ref_cand", "nll_ref", "nll_cand", "top1_ref", "top1_cand"}) {
    auto values = Known(candidate, "oracle64", field, result.contexts);
    if (!values.ok()) return Describe(values.status());
    want[field] = std::move(*values);
  }
  const std::vector<double>& kl = result.arrays[F64Output::kKlRefCand];
  const std::vector<double>& nll = result.arrays[F64Output::kNllCand];
  std::string problem = CheckEngineContexts(candidate, kl, want["kl_ref_cand"], limit);
  std::vector<double> scaled;
  double nll_worst = 0;
  int hits = 0, want_hits = 0;
  for (size_t i = 0; i < kl.size(); ++i) {
    const double k = want["kl_ref_cand"][i];
    scaled.push_back(std::fabs(kl[i] - k) / std::sqrt(k));
    nll_worst = std::max(nll_worst, std::fabs(nll[i] - want["nll_cand"][i]));
    hits += result.arrays[I32Output::kTop1Ref][i] == result.arrays[I32Output::kTop1Cand][i];
    want_hits += want["top1_ref"][i] == want["top1_cand"][i];
  }
  const double allowed_hits =
      std::ceil(limit.at("top1_hits_change_per_3000_positions").get<double>() *
                static_cast<double>(kl.size()) / 3000.0);
  const std::string more[] = {
      Beyond("99 % of |dKL| / sqrt(KL)", Quantile(scaled, 0.99),
             limit.at("kl_abs_over_sqrt_kl_p99").get<double>()),
      Beyond("max of |dKL| / sqrt(KL)", *std::max_element(scaled.begin(), scaled.end()),
             limit.at("kl_abs_over_sqrt_kl_max").get<double>()),
      Beyond("mean NLL, absolute", std::fabs(Mean(nll) - Mean(want["nll_cand"])),
             limit.at("mean_nll_abs").get<double>()),
      Beyond("position NLL, absolute", nll_worst, limit.at("nll_abs_max").get<double>()),
      Beyond("change of top-1 hits", std::abs(hits - want_hits), allowed_hits)};
  for (const std::string& text : more) {
    if (problem.empty()) problem = text;
  }
  return problem;
}

void Smollm2::EngineResults() {
  std::vector<std::string> captures, names;
  for (const std::string candidate : kCandidates) {
    if (!HaveModel(candidate)) continue;
    captures.push_back(Engine(candidate));
    names.push_back(candidate);
  }
  const auto results = Replay(Engine("reference"), captures, "exact", "all");
  const auto rounded = Replay(Engine("reference"), captures, "torch-bf16", "all");
  const Json& limit = tolerances_.at("replay_from_stored_rows").at("bf16_rounded_logits");
  for (const std::string& name : names) {
    tally_.Case("engine results " + name,
                results.ok() ? CheckEngine(name, results->at(name)) : Describe(results.status()));
    if (!rounded.ok()) {
      tally_.Case("engine torch-bf16 " + name, Describe(rounded.status()));
      continue;
    }
    const PositionArrays& arrays = rounded->at(name).arrays;
    int hits = 0;
    for (size_t i = 0; i < arrays.positions; ++i) {
      hits += arrays[I32Output::kTop1Ref][i] == arrays[I32Output::kTop1Cand][i];
    }
    const double want = limit.at("token_mean_kld").at(name).get<double>();
    // The rows are the engine's, not the oracle's: its own relative limit comes on top. Rounding
    // logits to bf16 amplifies a row's flipped bits, so it is no less than three times what another
    // float32 engine shows here (transformers 5.24, q4_0: 2.3e-5 with sdpa, 3.3e-5 with eager
    // attention, of a mean of 0.401).
    constexpr double kRoundedEngineRel = 2.5e-4;
    const double engine =
        std::max(kRoundedEngineRel, tolerances_.at("float32_engine_against_oracle64")
                                        .at("limit")
                                        .at("token_mean_kld_rel")
                                        .at(name)
                                        .get<double>());
    std::string problem =
        Beyond("mean KL, absolute", std::fabs(Mean(arrays[F64Output::kKlRefCand]) - want),
               limit.at("limit_abs").get<double>() + engine * want);
    if (problem.empty()) {
      problem =
          Beyond("change of top-1 hits", std::abs(hits - limit.at("top1_hits").at(name).get<int>()),
                 limit.at("limit_hits").get<double>() + 1);
    }
    tally_.Case("engine torch-bf16 " + name, problem);
  }
}

int Smollm2::Run() {
  if (const absl::Status status = Load(); !status.ok()) {
    tally_.Case("inputs", Describe(status));
    return tally_.Finish();
  }
  for (const char* forward : {"oracle64", "hf32"}) {
    StoredRows(forward, "exact");
    StoredRows(forward, "fp64-audit");
  }
  bool captured = true;
  for (const std::string model : {"reference", "int8-channel", "int4-g32", "q4_0"}) {
    if (!HaveModel(model)) {
      tally_.Skip("engine " + model, "set ASSAY_SMOLLM2_Q4_0_GGUF to its file");
      continue;
    }
    const std::string problem = CaptureModel(model);
    captured = captured && problem.empty();
    tally_.Case("engine capture " + model, problem);
    if (!problem.empty()) continue;
    tally_.Case("engine rows " + model, CheckRows(model));
    tally_.Case("engine noise floor " + model, CheckNoiseFloor(model));
  }
  if (captured) EngineResults();
  return tally_.Finish();
}

}  // namespace

int RunSmollm2(const Options& options) { return Smollm2(options).Run(); }

}  // namespace assay::golden
