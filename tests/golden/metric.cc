// Kind "metric": cases of index.json (see the README beside it).

#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "tests/golden/golden.h"
#include "worker/rank/protocol.h"

namespace assay::golden {
namespace {

// The fixtures' field names and the product's.
const std::map<std::string, std::string> kFields = {
    {"kl_fwd", "kl_ref_cand"},        {"kl_rev", "kl_cand_ref"}, {"jsd_bits", "jsd_bits"},
    {"nll_ref", "nll_ref"},           {"nll_cand", "nll_cand"},  {"entropy_ref", "entropy_ref"},
    {"entropy_cand", "entropy_cand"}, {"delta_p", "delta_p"},    {"argmax_ref", "top1_ref"},
    {"argmax_cand", "top1_cand"},     {"ties_ref", "ties_ref"},  {"ties_cand", "ties_cand"}};
// The fixtures' reason words and the product's tokens.
const std::map<std::string, std::string> kReasons = {
    {"non_finite_logit", "NON_FINITE_INPUT"},     {"non_finite_hidden", "NON_FINITE_INPUT"},
    {"non_finite_head", "NON_FINITE_INPUT"},      {"no_finite_column", "NO_FINITE_COLUMN"},
    {"token_out_of_range", "TOKEN_OUT_OF_RANGE"}, {"infinite_kl", "INFINITE_POSITION"}};

struct Tolerance {
  double absolute = 1e-9, relative = 1e-7;
};

bool Divergence(const std::string& field) {
  return field == "kl_fwd" || field == "kl_rev" || field == "jsd_bits";
}

// One case of the index, run through a group of ranks.
class MetricCase {
 public:
  MetricCase(const Options& options, const Json& json, Tolerance tolerance, Group& group)
      : options_(options), json_(json), tolerance_(tolerance), group_(group) {}

  // "" or what is wrong.
  std::string Check();

 private:
  absl::StatusOr<TensorView> Open(const std::string& spec);
  absl::StatusOr<std::string> WriteOne(const std::string& spec, const std::string& tensor,
                                       std::optional<uint64_t> rows);
  absl::StatusOr<Json> Unit(const std::string& policy);
  absl::StatusOr<std::shared_ptr<const SafetensorsFile>> Run(const std::string& policy);
  std::string CheckAnswers(const std::string& policy, const std::string& prefix);
  std::string CheckField(const SafetensorsFile& got, const SafetensorsFile& want,
                         const std::string& field, const std::string& prefix,
                         const std::string& policy);
  std::string CheckRefusal(const absl::Status& status);

  const Options& options_;
  const Json& json_;
  const Tolerance tolerance_;
  Group& group_;
  int files_ = 0;
  std::vector<std::shared_ptr<const SafetensorsFile>> open_;
};

absl::StatusOr<TensorView> MetricCase::Open(const std::string& spec) {
  const size_t hash = spec.rfind('#');
  ASSAY_ASSIGN_OR_RETURN(auto file,
                         SafetensorsFile::Open(JoinPath(options_.dir, spec.substr(0, hash))));
  open_.push_back(file);
  return file->Find(spec.substr(hash + 1));
}

// The tensor alone in a file of the product's own layout, cut to its first `rows` rows.
absl::StatusOr<std::string> MetricCase::WriteOne(const std::string& spec, const std::string& tensor,
                                                 std::optional<uint64_t> rows) {
  ASSAY_ASSIGN_OR_RETURN(TensorView view, Open(spec));
  if (rows) {
    view.bytes = view.bytes.first(view.bytes.size() / view.shape[0] * *rows);
    view.shape[0] = *rows;
  }
  SafetensorsBuilder builder;
  builder.Add(tensor, view.dtype, view.shape, view.bytes);
  const std::string path =
      JoinPath(options_.work, "input-" + std::to_string(files_++) + ".safetensors");
  ASSAY_RETURN_IF_ERROR(WriteFile(path, builder.Build()));
  return path;
}

absl::StatusOr<Json> MetricCase::Unit(const std::string& policy) {
  Json unit = {{"kind", "replay"}, {"policy", policy}, {"row_tile", 16}};
  for (const char* key : {"softcap", "valid_vocab", "allow_infinite"}) {
    if (json_.contains(key)) unit[key] = json_.at(key);
  }
  unit["heads"] = Json::array();
  unit["operands"] = Json::array();
  unit["contexts"] = {{{"index", 0}, {"observed", json_.at("tokens")}}};
  const bool logits = json_.at("kind") == "logits";
  std::optional<uint64_t> rows;
  if (json_.contains("head_rows")) rows = json_.at("head_rows").get<uint64_t>();
  Json comparison = {{"id", "case"}};
  for (const std::string side : {"ref", "cand"}) {
    const std::string spec = json_.at(side).get<std::string>();
    comparison[side] = {{"operand", side}};
    if (logits) {
      unit["operands"].push_back(
          {{"id", side}, {"role", side}, {"logits", {JoinPath(options_.dir, spec)}}});
      continue;
    }
    ASSAY_ASSIGN_OR_RETURN(const std::string hidden, WriteOne(spec, "hidden_states", {}));
    unit["operands"].push_back({{"id", side}, {"role", side}, {"hidden", {hidden}}});
    const bool own = side == "ref" || json_.contains("cand_head");
    if (own) {
      const char* key = side == "ref" ? "head" : "cand_head";
      ASSAY_ASSIGN_OR_RETURN(const std::string head,
                             WriteOne(json_.at(key).get<std::string>(), "weight", rows));
      unit["heads"].push_back({{"id", side + "-head"}, {"file", head}, {"tensor", "weight"}});
    }
    comparison[side]["head"] = own ? side + "-head" : "ref-head";
  }
  unit["comparisons"] = Json::array({comparison});
  return unit;
}

absl::StatusOr<std::shared_ptr<const SafetensorsFile>> MetricCase::Run(const std::string& policy) {
  ASSAY_ASSIGN_OR_RETURN(const Json unit, Unit(policy));
  const std::string out = JoinPath(options_.work, "out");
  ASSAY_ASSIGN_OR_RETURN(const UnitOutcome outcome, group_.Run(unit, out));
  return SafetensorsFile::Open(JoinPath(out, outcome.result.at("file").get<std::string>()));
}

std::string MetricCase::CheckField(const SafetensorsFile& got, const SafetensorsFile& want,
                                   const std::string& field, const std::string& prefix,
                                   const std::string& policy) {
  const std::string ours = "case|000000|" + kFields.at(field);
  if (field.rfind("argmax", 0) == 0 || field.rfind("ties", 0) == 0) {
    const auto a = Ints(got, ours), b = Ints(want, prefix + field);
    if (!a.ok()) return Describe(a.status());
    if (!b.ok()) return Describe(b.status());
    if (*a != *b) return prefix + field + " differs";
    return "";
  }
  const auto a = Doubles(got, ours), b = Doubles(want, prefix + field);
  if (!a.ok()) return Describe(a.status());
  if (!b.ok()) return Describe(b.status());
  if (a->size() != b->size()) return prefix + field + " has another length";
  std::vector<double> wider;
  // fp32 accumulation moves the logits of ordinary data: the fixtures state how far KL may go.
  if (prefix.empty() && want.Has("kl_fwd_fp32_tol") && policy == "exact") {
    if (field != "kl_fwd") return "";
    const auto limits = Doubles(want, "kl_fwd_fp32_tol");
    if (!limits.ok()) return Describe(limits.status());
    wider = *limits;
  }
  for (size_t i = 0; i < a->size(); ++i) {
    const double x = (*a)[i], y = (*b)[i];
    const double limit =
        tolerance_.absolute + tolerance_.relative * std::fabs(y) + (wider.empty() ? 0 : wider[i]);
    const bool equal = std::isfinite(y) ? std::fabs(x - y) <= limit : x == y;
    char text[200];
    snprintf(text, sizeof(text), "%s%s[%zu] is %.17g instead of %.17g", prefix.c_str(),
             field.c_str(), i, x, y);
    if (!equal) return text;
    if (Divergence(field) && x < 0) return std::string(text) + " (negative)";
    const bool zero = json_.value("zero", false) || (json_.value("dot", "") == "exact" && y == 0);
    if (Divergence(field) && zero && x != 0) return std::string(text) + " (must be exactly 0)";
  }
  return "";
}

std::string MetricCase::CheckAnswers(const std::string& policy, const std::string& prefix) {
  const auto got = Run(policy);
  if (!got.ok()) return policy + ": " + Describe(got.status());
  const auto want =
      SafetensorsFile::Open(JoinPath(options_.dir, json_.at("expected").get<std::string>()));
  if (!want.ok()) return Describe(want.status());
  for (const auto& [field, ours] : kFields) {
    if (!prefix.empty() && !(*want)->Has(prefix + field)) continue;
    const std::string problem = CheckField(**got, **want, field, prefix, policy);
    if (!problem.empty()) return policy + ": " + problem;
  }
  return "";
}

std::string MetricCase::CheckRefusal(const absl::Status& status) {
  if (status.ok()) return "was scored, must be refused";
  const Json& want = json_.at("refusal");
  const auto token = kReasons.find(want.at("reason").get<std::string>());
  if (token == kReasons.end()) return "unknown reason in the index";
  const Json got = DetailsOf(status);
  std::string problem;
  if (ReasonOf(status) != token->second) problem = "reason is not " + token->second;
  if (!got.is_object()) return "the refusal names nothing: " + Describe(status);
  for (const char* key : {"operand", "position"}) {
    Json value = got.value(key, Json());
    if (value == "") value = nullptr;
    if (value == want.at(key)) continue;
    problem = std::string(key) + " is " + value.dump() + " instead of " + want.at(key).dump();
  }
  return problem.empty() ? "" : problem + ": " + Describe(status);
}

std::string MetricCase::Check() {
  if (json_.at("outcome") == "refuse") {
    return CheckRefusal(Run(json_.value("policy", "exact")).status());
  }
  if (json_.contains("policy")) return CheckAnswers(json_.at("policy").get<std::string>(), "");
  const std::string dot = json_.value("dot", "exact");
  if (json_.value("may_refuse", false)) {
    const auto run = Run("exact");
    if (!run.ok()) {
      // A refusal is about the input; a crash or a lost rank is none.
      const bool refused = run.status().code() == absl::StatusCode::kInvalidArgument ||
                           run.status().code() == absl::StatusCode::kFailedPrecondition;
      return refused ? "" : Describe(run.status());
    }
  }
  std::string problem = CheckAnswers("exact", "");
  if (problem.empty()) problem = CheckAnswers("fp64-audit", "");
  if (problem.empty() && dot == "exact" && json_.at("kind") == "hidden") {
    problem = CheckAnswers("torch-bf16", "bf16.");
  }
  return problem;
}

}  // namespace

int RunMetric(const Options& options) {
  Tally tally;
  const std::string path = JoinPath(options.dir, "index.json");
  const absl::StatusOr<Json> index = ReadJsonFile(path);
  if (!index.ok()) {
    tally.Case("index.json", Describe(index.status()));
    return tally.Finish();
  }
  GroupOptions group_options;
  group_options.size = options.tp;
  group_options.threads = options.threads;
  group_options.work_dir = JoinPath(options.work, "group");
  group_options.rank_program = options.rank_program;
  group_options.capture = false;
  auto group = Group::Start(group_options);
  if (!group.ok()) {
    tally.Case("start", Describe(group.status()));
    return tally.Finish();
  }
  const Tolerance tolerance;
  for (const Json& entry : index->at("cases")) {
    tally.Case(entry.at("name").get<std::string>(),
               MetricCase(options, entry, tolerance, **group).Check());
  }
  return tally.Finish();
}

}  // namespace assay::golden
