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

}  // namespace assay
