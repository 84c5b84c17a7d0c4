// Model manifests, and how models and their transforms are spelt.

#include "storage/format/model_manifest.h"

#include "storage/base/files.h"
#include "storage/format/model_spec.h"
#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(model_manifest) {
  (void)ParseModelSpec(input);
  const auto transform = ParseRtnTransform(input);
  if (transform.ok()) {
    const auto again = ParseRtnTransform(transform->Canonical());
    fuzz::Require(again.ok() && again->Canonical() == transform->Canonical(),
                  "a canonical transform is its own canonical form");
  }
  const auto json = ParseJson(input, "input");
  if (!json.ok()) return;
  const auto manifest = ParseModelManifest(*json, "input");
  if (!manifest.ok()) return;
  for (const ModelFile& file : manifest->files)
    fuzz::Require(IsSafeRelativePath(file.path), "no path leads out of a folder");
  const auto again = ParseModelManifest(manifest->ToJson(), "written");
  fuzz::Require(again.ok() && again->Identity() == manifest->Identity(),
                "a written manifest names the same model");
}

}  // namespace assay
