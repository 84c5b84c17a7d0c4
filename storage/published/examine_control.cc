// Controls and audits of the suites (specs: qwen-suites 4.4, 4.6, 5.3, 5.5; fidelity-dataset 9).

#include <algorithm>
#include <array>
#include <cmath>

#include "storage/dataset/finding.h"
#include "storage/published/examine.h"
#include "storage/report/published_cumulative.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

const Json& At(const Json& document, std::initializer_list<const char*> path) {
  return DatasetMember(document, path);
}

// `key` of every row of a list; nothing when one is no number.
std::optional<std::vector<double>> Column(const Json& rows, const char* key) {
  if (!rows.is_array() || rows.empty()) return std::nullopt;
  std::vector<double> out;
  for (const Json& row : rows) {
    const Json& value = At(row, {key});
    if (!value.is_number()) return std::nullopt;
    out.push_back(value.get<double>());
  }
  return out;
}

// Live log-probabilities against replayed ones, by context.
void ExamineQualification(const Json& document, PublishedExamination* out) {
  const Json& rows = At(document, {"per_context"});
  if (rows.is_null() && At(document, {"mean_kld_live_vs_replayed"}).is_number()) {
    return AddNotChecked(out, "rows", "they were cut out before the receipt was published");
  }
  const auto mean = Column(rows, "mean_kld"), max = Column(rows, "max_kld"),
             p999 = Column(rows, "p999_kld"), top1 = Column(rows, "top1_agreement");
  if (!mean || !max || !p999 || !top1) {
    return AddCheck(out, "rows", false, "per_context lacks a figure, or there are no rows");
  }
  AddEqual(out, "contexts", At(document, {"contexts"}), mean->size());
  AddEqual(out, "mean_kld_live_vs_replayed", At(document, {"mean_kld_live_vs_replayed"}),
           ExactMean(*mean));
  AddEqual(out, "max_kld", At(document, {"max_kld"}), *std::max_element(max->begin(), max->end()));
  AddEqual(out, "p999_kld", At(document, {"p999_kld"}),
           *std::max_element(p999->begin(), p999->end()));
  AddEqual(out, "top1_agreement", At(document, {"top1_agreement"}), ExactMean(*top1));
  AddNotChecked(out, "rows' own numbers", "need the serving engine");
}

// Linear between order statistics, written as lo (1 - w) + hi w.
double Percentile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = static_cast<double>(values.size() - 1) * q;
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  const double weight = at - static_cast<double>(low);
  return values[low] * (static_cast<double>(high) - at) + values[high] * weight;
}

void ExamineNearDuplicates(const Json& document, PublishedExamination* out) {
  const Json& rows = At(document, {"documents"});
  const auto containment = Column(rows, "max_near_window_containment");
  const auto hits = Column(rows, "exact_ngram_hits"),
             runs = Column(rows, "longest_exact_run_words");
  if (!containment || !hits || !runs) {
    return AddCheck(out, "documents", false, "a document lacks a figure, or there are none");
  }
  const Json& summary = At(document, {"summary"});
  AddEqual(out, "documents", At(summary, {"documents"}), containment->size());
  const auto count = [](const std::vector<double>& values, double from) {
    return std::count_if(values.begin(), values.end(), [from](double v) { return v >= from; });
  };
  AddEqual(out, "documents_with_exact_hit", At(summary, {"documents_with_exact_hit"}),
           count(*hits, 1));
  AddEqual(out, "documents_with_exact_run_32_words",
           At(summary, {"documents_with_exact_run_32_words"}), count(*runs, 32));
  AddEqual(out, "total_exact_ngram_hits", At(summary, {"total_exact_ngram_hits"}),
           static_cast<int64_t>(ExactSumOf(*hits)));
  AddEqual(out, "longest_exact_run_words", At(summary, {"longest_exact_run_words"}),
           static_cast<int64_t>(*std::max_element(runs->begin(), runs->end())));
  AddEqual(out, "near_window_containment_max", At(summary, {"near_window_containment_max"}),
           *std::max_element(containment->begin(), containment->end()));
  const auto near = [&](const char* key, double computed) {
    const Json& stated = At(summary, {key});
    AddCheck(out, key,
             stated.is_number() &&
                 std::fabs(stated.get<double>() - computed) <= 1e-15 + 1e-12 * std::fabs(computed),
             "follows from the documents");
  };
  near("near_window_containment_mean", ExactMean(*containment));
  near("near_window_containment_p95", Percentile(*containment, 0.95));
  near("near_window_containment_p99", Percentile(*containment, 0.99));
  AddNotChecked(out, "documents' own numbers", "need the corpus and the calibration texts");
}

void ExamineFetchLog(const Json& document, PublishedExamination* out) {
  int64_t bytes = 0, chars = 0;
  bool sound = At(document, {"documents"}).is_array();
  for (const Json& row : At(document, {"documents"})) {
    const auto size = DatasetInt(At(row, {"bytes"})), length = DatasetInt(At(row, {"chars"}));
    sound = sound && size && length && !__builtin_add_overflow(bytes, *size, &bytes) &&
            !__builtin_add_overflow(chars, *length, &chars);
  }
  if (!sound) return AddCheck(out, "documents", false, "a document lacks bytes or chars");
  AddEqual(out, "totals.documents", At(document, {"totals", "documents"}),
           At(document, {"documents"}).size());
  AddEqual(out, "totals.bytes", At(document, {"totals", "bytes"}), bytes);
  AddEqual(out, "totals.chars", At(document, {"totals", "chars"}), chars);
  AddNotChecked(out, "texts", "are not in the log; each is named by digest");
}

// "31/32" of sentinels captured twice.
void ExamineSentinels(const Json& document, PublishedExamination* out) {
  const auto all = DatasetInt(At(document, {"sentinels"}));
  const Json& differing = At(document, {"mismatched_indices"});
  const Json& identical = At(document, {"byte_identical"});
  if (!all || !differing.is_array()) {
    return AddCheck(out, "sentinels", false, "sentinels or mismatched_indices is missing");
  }
  const auto equal = *all - static_cast<int64_t>(differing.size());
  const std::string text = std::to_string(equal) + "/" + std::to_string(*all);
  AddCheck(out, "byte_identical",
           identical == equal || identical == text ||
               (identical.is_boolean() && identical == differing.empty()),
           text + " sentinels were captured byte for byte alike twice");
  AddNotApplicable(out, "tensor digests",
                   "the receipt compares whole files: equal bytes prove equal tensors, other bytes "
                   "do not prove others unless the files carry no metadata");
}

void ExamineHeadEquality(const Json& document, PublishedExamination* out) {
  for (const auto& [claim, tensor] :
       {std::pair("head_equal", "head"), std::pair("final_norm_equal", "final_norm")}) {
    const Json& stated = At(document, {claim});
    if (stated.is_null()) {
      AddNotApplicable(out, claim, "not stated");
      continue;
    }
    bool found = false, equal = true;
    for (const auto& [key, value] : At(document, {"bf16"}).items()) {
      if (key.rfind(tensor, 0) != 0 || !value.is_string()) continue;
      found = true;
      equal = equal && At(document, {"fp8", key.c_str()}) == value;
    }
    if (!found) {
      AddNotChecked(out, claim, "the digests are not in the receipt: assay head verify");
    } else {
      AddCheck(out, claim, stated == equal, "the digests of both checkpoints");
    }
  }
}

// How content_sha256 was computed differs between receipts, and they do not say.
void ExamineByContentDigest(const Json& document, PublishedExamination* out) {
  const Json& stated = At(document, {"content_sha256"});
  const std::vector<std::string> sets[] = {
      {"content_sha256"},
      {"content_sha256", "generated_utc"},
      {"content_sha256", "generated_utc", "content_sha256_excludes"},
      {"content_sha256", "generated_unix", "content_sha256_excludes"},
      {"content_sha256", "content_sha256_excludes"},
      {"content_sha256", "generated_utc", "generator", "content_sha256_excludes"}};
  for (const auto& excluded : sets) {
    if (stated != PublishedContentSha256(document, excluded)) continue;
    std::string without;
    for (const std::string& key : excluded) without += " " + key;
    return AddCheck(out, "content_sha256", true, "recomputed, equal; without" + without);
  }
  AddNotChecked(out, "content_sha256",
                "is not that of the canonical form without its usual exceptions: "
                "another layout was hashed, or the document was changed");
}

struct Control {
  const char* kind;
  const char* what;
  void (*examine)(const Json& document, PublishedExamination* out);
};

constexpr std::array kControls = {
    Control{"replay-qualification", "qualification of replay against a serving engine",
            ExamineQualification},
    Control{"near-duplicate-audit", "audit of near duplicates", ExamineNearDuplicates},
    Control{"capture-determinism", "determinism of captures", nullptr},
    Control{"head-equality", "checkpoint head against served head", ExamineHeadEquality},
};

}  // namespace

bool ExamineControl(const Json& document, const PublishedSchema& schema, const std::string&,
                    PublishedExamination* out) {
  if (out->schema == "kld5-corpus-fetch-log/1") {
    out->what = "log of corpus documents";
    ExamineFetchLog(document, out);
    return true;
  }
  for (const Control& control : kControls) {
    if (!schema.Is(control.kind)) continue;
    out->what = control.what;
    if (control.examine != nullptr) control.examine(document, out);
    if (schema.Is("capture-determinism") && document.contains("sentinels"))
      ExamineSentinels(document, out);
    if (document.contains("content_sha256")) ExamineByContentDigest(document, out);
    return true;
  }
  if (schema.family.empty() || !document.contains("content_sha256")) return false;
  out->what = "receipt with a content digest";
  ExamineByContentDigest(document, out);
  AddNotChecked(out, "figures", "this kind of receipt is known by its digest only");
  return true;
}

}  // namespace assay
