// Published documents of other systems: recognized by content and computed again.

#include "storage/published/examine.h"
#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(published) { (void)ExaminePublished(input, "input"); }

}  // namespace assay
