// Documents of a fidelity dataset: one document of a sound dataset is replaced by the input, and
// every rule is asked. The dataset's own files are there, so that rules get to tensors.

#include "storage/dataset/compare.h"
#include "storage/dataset/tree.h"
#include "storage/dataset/verify.h"
#include "tests/fuzz/fuzz.h"

namespace assay {
namespace {

const DatasetVerdict& Sound() {
  static const DatasetVerdict verdict = [] {
    auto sound =
        VerifyDataset(fuzz::SourceDir() + "/tests/data/metric/fidelity-dataset/datasets/root", {});
    fuzz::Require(sound.ok(), "the fixture is sound");
    return sound;
  }();
  return verdict;
}

// The member of `documents` that `json` looks like a version of, by the keys that only it has.
Json* SlotOf(DatasetDocuments* documents, const Json& json) {
  if (json.contains("dataset_sha256")) return &documents->manifest;
  if (json.contains("capture_content_digest")) return &documents->capture;
  if (json.contains("suite_token_hash_sha256")) return &documents->panel;
  if (json.contains("payload") || json.contains("numerics")) return &documents->head;
  return &documents->runtime;
}

void AskEveryRule(const DatasetDocuments& documents, Findings* findings) {
  const DatasetOptions options;
  CheckRecords(documents, findings);
  CheckPanelAggregate(documents, findings);
  CheckPanelTokens(documents, options, findings);
  CheckBinding(documents, findings);
  CheckCoverage(documents, options, findings);
  CheckHead(documents, findings);
  CheckDeterminism(documents, findings);
  CheckRole(documents, findings);
  CheckScope(documents, findings);
  CheckLaneAndRemap(documents, findings);
  CheckTensors(documents, findings);
}

void Relate(const DatasetVerdict& reference, const DatasetVerdict& candidate) {
  const DatasetRelation relation = RelateDatasets(reference, candidate, {});
  if (relation.refusal || !reference.ok() || !candidate.ok()) return;
  (void)EstimateDatasets(reference.documents, candidate.documents, relation, {});
}

}  // namespace

ASSAY_FUZZ_TARGET(dataset) {
  const auto json = ParseJson(input, "input");
  if (!json.ok() || !json->is_object()) return;
  DatasetVerdict changed = Sound();
  *SlotOf(&changed.documents, *json) = *json;
  CheckPaths(*json, "input", "capture", &changed.findings);
  AskEveryRule(changed.documents, &changed.findings);
  Relate(Sound(), changed);
  Relate(changed, Sound());
}

}  // namespace assay
