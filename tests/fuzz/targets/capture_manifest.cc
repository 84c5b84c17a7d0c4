// Capture manifests of published and legacy form.

#include "storage/format/capture.h"
#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(capture_manifest) {
  const auto json = ParseJson(input, "input");
  if (!json.ok()) return;
  const auto manifest = ParseCaptureManifest(*json, "input");
  if (!manifest.ok()) return;
  fuzz::Require(manifest->ContentSha256().size() == 64, "a capture has a digest");
  for (size_t i = 1; i < manifest->records.size(); ++i)
    fuzz::Require(manifest->records[i - 1].index < manifest->records[i].index,
                  "records are sorted and unique");
}

}  // namespace assay
