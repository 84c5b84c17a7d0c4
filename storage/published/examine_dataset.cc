// Documents of fidelity datasets, each for itself (specs: fidelity-dataset 1, 3.6, 4.6).

#include <algorithm>
#include <set>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/number_format.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/finding.h"
#include "storage/dataset/scope.h"
#include "storage/published/examine.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

const Json& At(const Json& document, std::initializer_list<const char*> path) {
  return DatasetMember(document, path);
}

void CheckSeal(const Json& document, const char* field, PublishedExamination* out) {
  const Json& stated = At(document, {field});
  if (stated == DatasetSeal(document, field))
    return AddCheck(out, "seal", true, std::string(field) + " recomputed, equal");
  Json absent = document;
  absent.erase(field);
  const bool legacy = stated == Sha256Hex(DatasetCanonicalJson(absent) + "\n");
  AddCheck(out, "seal", legacy,
           legacy ? std::string(field) + " of the older form" : "changed after it was sealed");
}

void CheckCaptureManifest(const Json& document, PublishedExamination* out) {
  int64_t rows = 0, bytes = 0;
  bool sound = true;
  for (const Json& record : At(document, {"records"})) {
    const auto scored = DatasetInt(At(record, {"scored_rows"}));
    const auto size = DatasetInt(At(record, {"size_bytes"}));
    sound = sound && scored && size && !__builtin_add_overflow(rows, *scored, &rows) &&
            !__builtin_add_overflow(bytes, *size, &bytes);
  }
  const auto digest = DatasetContentDigest(At(document, {"records"}));
  if (!sound || !digest) {
    return AddCheck(out, "records", false,
                    "a record lacks index, digest, rows or size, or two have one index");
  }
  AddEqual(out, "capture_content_digest", At(document, {"capture_content_digest"}), *digest);
  AddEqual(out, "total_scored_rows", At(document, {"total_scored_rows"}), rows);
  AddEqual(out, "total_size_bytes", At(document, {"total_size_bytes"}), bytes);
  AddNotChecked(out, "tensors",
                "their files are in the dataset's folder: assay dataset verify DIR");
}

void CheckPanel(const Json& document, PublishedExamination* out) {
  std::set<int64_t> indices;
  int64_t positions = 0;
  for (const Json& record : At(document, {"records"})) {
    if (const auto index = DatasetInt(At(record, {"index"}))) indices.insert(*index);
    const auto count = DatasetInt(At(record, {"prediction_positions"}));
    if (!count || __builtin_add_overflow(positions, *count, &positions)) positions = -1;
  }
  AddEqual(out, "suite_token_hash_sha256", At(document, {"suite_token_hash_sha256"}),
           DatasetSuiteHash(At(document, {"records"})));
  AddEqual(out, "contexts", At(document, {"contexts"}), indices.size());
  AddEqual(out, "scored_positions_total", At(document, {"scored_positions_total"}), positions);
  AddNotChecked(out, "tokens", "their files are in the dataset's folder: assay dataset verify DIR");
}

void CheckRuntime(const Json& document, PublishedExamination* out) {
  const Json& fingerprint = At(document, {"stack_fingerprint"});
  Json bare = fingerprint;  // other collectors leave out what names a run, not a stack
  if (bare.is_object()) {
    for (const char* key : {"collected_utc", "paths", "stack_fingerprint_sha256"}) bare.erase(key);
  }
  const Json& stated = At(document, {"stack_fingerprint_sha256"});
  AddCheck(out, "stack_fingerprint_sha256",
           stated == Sha256Hex(PythonCanonJson(fingerprint)) ||
               stated == Sha256Hex(DatasetCanonicalJson(bare)),
           "the digest of stack_fingerprint");
  const Json& lane = At(document, {"lane_identity_sha256"});
  if (lane.is_null()) return AddNotChecked(out, "lane_identity_sha256", "not stated");
  const auto text = [](const Json& value) {
    return value.is_null() ? std::string("None") : DatasetText(value);
  };
  AddEqual(out, "lane_identity_sha256", lane,
           Sha256Hex(text(At(document, {"lane"})) + "|" + text(At(fingerprint, {"torch_version"})) +
                     "|" + text(At(fingerprint, {"device_name"}))));
}

}  // namespace

void ExamineDataset(const Json& document, PublishedExamination* out) {
  CheckSeal(document, "dataset_sha256", out);
  AddEqual(out, "scope_digest", At(document, {"scope", "scope_digest"}),
           DatasetScopeDigest(At(document, {"scope"})));
  AddNotChecked(out, "files",
                "checksums, tensors, tokens and rules need the folder: assay dataset verify DIR");
}

void ExamineSealed(const Json& document, PublishedExamination* out) {
  CheckSeal(document, "receipt_sha256", out);
  if (out->schema == "malaiwah.fidelity-capture-manifest.v1") CheckCaptureManifest(document, out);
  if (out->schema == "malaiwah.fidelity-panel-binding.v1") CheckPanel(document, out);
  if (out->schema == "malaiwah.fidelity-capture-runtime.v1") CheckRuntime(document, out);
}

void ExamineComparisonReceipt(const Json& document, PublishedExamination* out) {
  CheckSeal(document, "receipt_sha256", out);
  const Json& mean = At(document, {"kl", "mean"});
  AddEqual(out, "metric.value", At(document, {"metric", "value"}), mean);
  AddEqual(out, "kl_micro_token_mean", At(document, {"kl_micro_token_mean"}), mean);
  const Json& strata = At(document, {"per_stratum"});
  if (strata.is_object() && !strata.empty()) {
    CompensatedSum sum;
    bool numbers = true;
    for (const auto& [name, value] : strata.items()) {
      numbers = numbers && value.is_number();
      if (numbers) sum.Add(value.get<double>());
    }
    const double macro = sum.Result() / static_cast<double>(strata.size());
    AddCheck(out, "kl_macro_stratum_mean",
             numbers && At(document, {"kl_macro_stratum_mean"}) == macro,
             "the mean of per_stratum");
  }
  const Json& kind = At(document, {"comparison_kind"});
  if (kind == "reproduction_confirmation") {
    bool zero = At(document, {"metric", "value"}) == 0 && At(document, {"top1_agreement"}) == 1;
    for (const Json& value : At(document, {"kl"})) zero = zero && value.dump() == "0.0";
    AddCheck(out, "SC-1",
             zero && IsTrue(At(document, {"self_compare", "capture_content_digest_equal"})),
             "a reproduction is exactly 0 everywhere, of equal tensors");
  } else if (kind == "run_to_run_floor") {
    AddCheck(out, "SC-2",
             At(document, {"reference", "capture_content_digest"}) !=
                 At(document, {"candidate", "capture_content_digest"}),
             "a noise floor compares two captures");
  }
  AddCheck(out, "SC-3", kind == "measurement" || !IsTrue(At(document, {"submission", "emitted"})),
           "only a measurement is submitted");
  AddCheck(out, "BIAS-006",
           At(document, {"comparability", "same_lane"}) != false ||
               !IsTrue(At(document, {"comparability", "usable_as_floor"})),
           "no floor across lanes");
  AddCheck(out, "BIAS-001",
           At(document, {"estimator", "stack_relation"}) != "cross_stack" ||
               !At(document, {"comparability", "bias"}).is_null(),
           "a comparison across stacks states its bias");
  AddNotChecked(out, "values", "need the two datasets: assay dataset compare REFERENCE CANDIDATE");
}

void ExamineProtocol(const Json& document, PublishedExamination* out) {
  constexpr const char* kParts[] = {"scoring",   "selection", "uncertainty", "determinism",
                                    "canary_r0", "lane",      "reporting"};
  Json scoring = Json::object();
  bool complete = true;
  for (const char* part : kParts) {
    complete = complete && document.contains(part);
    if (complete) scoring[part] = document.at(part);
  }
  AddCheck(out, "parts", complete,
           "scoring, selection, uncertainty, determinism, canary_r0, lane and reporting are there");
  if (complete) {
    AddNotChecked(
        out, "scoring digest",
        Sha256Hex(PythonCanonJson(scoring)) + "; receipts made under this protocol repeat it");
  }
}

}  // namespace assay
