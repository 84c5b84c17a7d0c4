// The strict JSON reader and its writers: whatever is read is written in each layout so that it
// reads back as the same document, and a canonical form is its own canonical form.

#include "storage/base/json.h"

#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(json) {
  const auto json = ParseJson(input, "input");
  if (!json.ok()) return;
  for (const std::string& text : {PythonPlainJson(*json), PythonPrettyJson(*json)}) {
    const auto again = ParseJson(text, "written");
    fuzz::Require(again.ok() && *again == *json, "written JSON reads back as the same document");
  }
  const auto sorted = ParseJson(PythonCanonJson(*json), "sorted");
  fuzz::Require(sorted.ok() && PythonCanonJson(*sorted) == PythonCanonJson(*json),
                "sorting keys twice changes nothing");
  const auto canonical = CanonicalJson(*json);
  if (!canonical.ok()) return;
  const auto again = ParseJson(*canonical, "canonical");
  fuzz::Require(again.ok(), "canonical JSON can be read");
  const auto twice = CanonicalJson(*again);
  fuzz::Require(twice.ok() && *twice == *canonical, "a canonical form is its own canonical form");
}

}  // namespace assay
