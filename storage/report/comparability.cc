#include "storage/report/comparability.h"

#include <algorithm>
#include <array>

namespace assay {
namespace {

using Pointer = Json::json_pointer;

// A member that both reports must have equal; one that is absent equals null.
struct Rule {
  const char* code;
  const char* member;  // JSON pointer from the report's root, or from heads/HEAD when of_head
  bool of_head;
  bool numeric;
  const char* text;
};

constexpr std::array kRules = {
    Rule{"SCHEMA_DIFFERS", "/schema", false, false, "their report schemas differ"},
    Rule{"SUITE_DIFFERS", "/suite", false, false, "they were scored on different suites"},
    Rule{"COVERAGE_DIFFERS", "/coverage", false, false, "they cover different contexts"},
    Rule{"REFERENCE_DIFFERS", "/reference/capture/content_sha256", false, false,
         "their reference captures differ"},
    Rule{"CUT_POINT_DIFFERS", "/reference/capture/cut_point", false, false,
         "their references were captured at different points of the model"},
    Rule{"REFERENCE_HEAD_DIFFERS", "/reference_head/rounded_sha256", true, false,
         "their reference heads differ"},
    Rule{"LOGIT_SCALE_DIFFERS", "/reference_head/logit_scale", true, false,
         "their reference heads have different logit scales"},
    Rule{"HEAD_BIAS_DIFFERS", "/reference_head/bias_sha256", true, false,
         "their reference heads have different biases"},
    Rule{"VOCABULARY_DIFFERS", "/reference_head/vocab", true, false,
         "their vocabularies have different sizes"},
    Rule{"VALID_VOCABULARY_DIFFERS", "/numeric/valid_vocab", false, false,
         "they count different columns of the vocabulary"},
    Rule{"SOFTCAP_DIFFERS", "/numeric/softcap", false, false, "their softcaps differ"},
    Rule{"POLICY_DIFFERS", "/numeric/policy", false, true, "their numeric policies differ"},
    Rule{"VOCAB_CHUNK_DIFFERS", "/numeric/vocab_chunk", false, true,
         "their sums were cut into different chunks of the vocabulary"},
    Rule{"OPERAND_DTYPE_DIFFERS", "/numeric/operand_dtype", false, true,
         "their operands were multiplied in different types"},
    Rule{"BACKEND_DIFFERS", "/numeric/backend", false, true, "their backends differ"},
    Rule{"KERNELS_DIFFER", "/numeric/kernel_identity", false, true,
         "their kernel identities differ"},
    Rule{"INFINITE_RULE_DIFFERS", "/numeric/allow_infinite", false, true,
         "only one of them allows infinite positions"},
};
// Not compared: numeric/operand_rounding says how a candidate's rows were stored (equal reference
// captures were rounded alike), heads' original dtypes how the same bf16 values were.

const Json& Member(const Json& json, const char* pointer) {
  static const Json* const null = new Json(nullptr);
  const Pointer at(pointer);
  return json.contains(at) ? json.at(at) : *null;
}

Json Short(const Json& value) { return value.is_primitive() ? value : Json(nullptr); }

// Scored contexts row by row: coverage holds only their digest and number.
bool SameRows(const Json& a, const Json& b) {
  const Json& rows_a = Member(a, "/contexts");
  const Json& rows_b = Member(b, "/contexts");
  if (rows_a.size() != rows_b.size()) return false;
  for (size_t i = 0; i < rows_a.size(); ++i) {
    for (const char* key : {"/index", "/source_cluster", "/positions"}) {
      if (Member(rows_a[i], key) != Member(rows_b[i], key)) return false;
    }
  }
  return true;
}

std::string Clause(const Rule& rule, const Json& a, const Json& b) {
  std::string text = rule.text;
  const bool digest = a.is_string() && a.get_ref<const std::string&>().size() == 64;
  if (a.is_structured() || b.is_structured() || digest) return text;
  return text + " (" + a.dump() + " and " + b.dump() + ")";
}

}  // namespace

bool Comparability::across_policies() const {
  return std::all_of(reasons.begin(), reasons.end(),
                     [](const Incomparability& reason) { return reason.numeric; });
}

std::string Comparability::Text() const {
  std::string text;
  for (const Incomparability& reason : reasons) {
    text += (text.empty() ? "" : "; ") + reason.text + " [" + reason.code + "]";
  }
  return text;
}

Json Comparability::NumericJson() const {
  Json json = Json::array();
  for (const Incomparability& reason : reasons) {
    if (reason.numeric) json.push_back({{"code", reason.code}, {"a", reason.a}, {"b", reason.b}});
  }
  return json;
}

Comparability CompareReports(const Json& a, const Json& b, std::string_view head) {
  Comparability out;
  const std::string at = "/heads/" + std::string(head);
  const Json& head_a = Member(a, at.c_str());
  const Json& head_b = Member(b, at.c_str());
  const bool both = !head_a.is_null() && !head_b.is_null();
  if (!both) {
    out.reasons.push_back({"HEAD_MISSING",
                           "one of them has no \"" + std::string(head) + "\" result", false,
                           !head_a.is_null(), !head_b.is_null()});
  }
  for (const Rule& rule : kRules) {
    if (rule.of_head && !both) continue;
    const Json& value_a = Member(rule.of_head ? head_a : a, rule.member);
    const Json& value_b = Member(rule.of_head ? head_b : b, rule.member);
    const bool rows = rule.code == std::string_view("COVERAGE_DIFFERS") && both;
    if (value_a == value_b && (!rows || SameRows(head_a, head_b))) continue;
    out.reasons.push_back(
        {rule.code, Clause(rule, value_a, value_b), rule.numeric, Short(value_a), Short(value_b)});
  }
  return out;
}

namespace {

// One member of published documents, or what follows from several (`value`).
struct PublishedRule {
  const char* code;
  unsigned uses;       // PublishedUse, or-ed
  const char* member;  // JSON pointer
  Json (*value)(const Json& document);
  bool stated_by_both;  // compared only where both documents state it
  bool numeric;
  const char* text;
};

Json ScoreFrom(const Json& document) {
  const Json& from = Member(document, "/scored_position_window/score_from");
  return from.is_null() ? Json(0) : from;
}

Json PositionsPerContext(const Json& document) {
  const Json& stated = Member(document, "/scored_position_window/positions_per_context");
  return stated.is_null() ? Member(document, "/suite/parent/scored_positions_per_context") : stated;
}

// [index, cluster, positions] of every context, by index; null without rows. The first generation
// states no positions for each: every context has the same number.
Json Rows(const Json& document) {
  const Json& all = Member(document, "/per_context_all");
  const Json& rows = all.is_array() ? all : Member(document, "/per_context");
  if (!rows.is_array() || rows.empty()) return nullptr;
  const Json& positions = Member(document, "/scored_positions");
  const Json each = positions.is_number_integer()
                        ? Json(positions.get<int64_t>() / static_cast<int64_t>(rows.size()))
                        : Json(nullptr);
  std::vector<std::pair<Json, Json>> sorted;
  for (const Json& row : rows) {
    const Json& index = Member(row, "/index");
    const Json& scored = Member(row, "/positions_scored");
    sorted.emplace_back(index, Json::array({index, Member(row, "/source_cluster"),
                                            scored.is_null() ? each : scored}));
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Json out = Json::array();
  for (auto& [index, row] : sorted) out.push_back(std::move(row));
  return out;
}

constexpr unsigned kPair = static_cast<unsigned>(PublishedUse::kPair);
constexpr unsigned kAggregate = static_cast<unsigned>(PublishedUse::kAggregate);
constexpr unsigned kLadder = static_cast<unsigned>(PublishedUse::kLadderPair);

constexpr std::array kPublishedRules = {
    PublishedRule{"SUITE_DIFFERS", kPair, "/suite_token_sha256", nullptr, false, false,
                  "they were scored on different suites"},
    PublishedRule{"SUITE_DIFFERS", kLadder, "/suite/parent/suite_token_sha256", nullptr, false,
                  false, "their suites differ"},
    PublishedRule{"FILTER_DIFFERS", kPair | kAggregate | kLadder, "/filter", nullptr, false, false,
                  "they score different parts of the suite"},
    PublishedRule{"WINDOW_DIFFERS", kPair | kAggregate | kLadder, nullptr, ScoreFrom, false, false,
                  "they score different positions of their contexts"},
    PublishedRule{"WINDOW_LENGTH_DIFFERS", kLadder, nullptr, PositionsPerContext, false, false,
                  "they score different numbers of positions in a context"},
    PublishedRule{"COVERAGE_DIFFERS", kPair | kLadder, nullptr, Rows, true, false,
                  "they cover different contexts, documents or positions"},
    PublishedRule{"CONTEXTS_DIFFER", kLadder, "/contexts", nullptr, false, false,
                  "they cover different numbers of contexts"},
    PublishedRule{"POSITIONS_DIFFER", kLadder, "/scored_positions", nullptr, false, false,
                  "they cover different numbers of positions"},
    PublishedRule{"CLUSTERS_DIFFER", kLadder, "/source_clusters", nullptr, false, false,
                  "they cover different numbers of documents"},
    PublishedRule{"REFERENCE_DIFFERS", kLadder, "/reference_identity", nullptr, false, false,
                  "their references differ"},
    PublishedRule{"REFERENCE_WEIGHTS_DIFFER", kPair | kAggregate,
                  "/reference_identity/shard_sha256", nullptr, true, false,
                  "the weights of their references differ"},
    PublishedRule{"REFERENCE_CONFIG_DIFFERS", kPair | kAggregate,
                  "/reference_identity/config_sha256", nullptr, true, false,
                  "the configurations of their references differ"},
    PublishedRule{"REFERENCE_REVISION_DIFFERS", kPair | kAggregate,
                  "/reference_identity/model_revision", nullptr, true, false,
                  "the revisions of their references differ"},
    PublishedRule{"REFERENCE_HEAD_DIFFERS", kPair | kAggregate | kLadder, "/head_sha256", nullptr,
                  false, false, "their reference heads differ"},
    PublishedRule{"VOCABULARY_DIFFERS", kPair | kAggregate | kLadder, "/vocab_size", nullptr, false,
                  false, "their vocabularies have different sizes"},
    PublishedRule{"HIDDEN_SIZE_DIFFERS", kPair | kAggregate | kLadder, "/hidden_size", nullptr,
                  false, false, "their hidden states have different widths"},
    PublishedRule{"HEAD_NAME_DIFFERS", kAggregate | kLadder, "/head", nullptr, false, false,
                  "they name different head files"},
    PublishedRule{"CANDIDATE_HEAD_DIFFERS", kAggregate | kLadder, "/candidate_head_sha256", nullptr,
                  false, false, "their candidate heads differ"},
    PublishedRule{"CANDIDATE_HEAD_NAME_DIFFERS", kAggregate | kLadder, "/candidate_head", nullptr,
                  false, false, "they name different candidate head files"},
    PublishedRule{"HISTOGRAM_DIFFERS", kAggregate, "/kld_tail/bin_edges", nullptr, false, false,
                  "their histograms have different bin edges, or one has none"},
    PublishedRule{"COMPARATOR_DIFFERS", kAggregate | kLadder, "/comparator", nullptr, false, false,
                  "their comparators differ"},
    PublishedRule{"COMPARATOR_DIFFERS", kPair, "/comparator", nullptr, false, true,
                  "their comparators differ"},
};

// Members of both identity blocks that shards of one candidate share.
constexpr std::array kIdentityMembers = {"model_path",
                                         "model_revision",
                                         "model_revision_source",
                                         "index_sha256",
                                         "config_sha256",
                                         "shard_sha256",
                                         "quantization",
                                         "quantization_config",
                                         "trust_remote_code",
                                         "kv_cache_dtype_requested",
                                         "kv_cache_dtype_resolved"};

void AddIdentities(const Json& a, const Json& b, Comparability* out) {
  for (const char* side : {"reference_identity", "candidate_identity"}) {
    std::string different;
    for (const char* member : kIdentityMembers) {
      const std::string pointer = std::string("/") + side + "/" + member;
      if (Member(a, pointer.c_str()) == Member(b, pointer.c_str())) continue;
      different += (different.empty() ? "" : ", ") + std::string(member);
    }
    if (different.empty()) continue;
    const bool reference = side[0] == 'r';
    out->reasons.push_back(
        {reference ? "REFERENCE_DIFFERS" : "CANDIDATE_DIFFERS",
         (reference ? "their references differ in " : "their candidates differ in ") + different,
         false, nullptr, nullptr});
  }
}

}  // namespace

Comparability ComparePublished(const Json& a, const Json& b, PublishedUse use) {
  Comparability out;
  for (const PublishedRule& rule : kPublishedRules) {
    if ((rule.uses & static_cast<unsigned>(use)) == 0) continue;
    const Json value_a = rule.value != nullptr ? rule.value(a) : Member(a, rule.member);
    const Json value_b = rule.value != nullptr ? rule.value(b) : Member(b, rule.member);
    if (value_a == value_b) continue;
    if (rule.stated_by_both && (value_a.is_null() || value_b.is_null())) continue;
    const Rule plain = {rule.code, rule.member, false, rule.numeric, rule.text};
    out.reasons.push_back(
        {rule.code, Clause(plain, value_a, value_b), rule.numeric, Short(value_a), Short(value_b)});
  }
  if (use == PublishedUse::kAggregate) AddIdentities(a, b, &out);
  return out;
}

}  // namespace assay
