// The scope of a dataset: which tensors were treated how (specs: fidelity-dataset 1.3).

#ifndef ASSAY_STORAGE_DATASET_SCOPE_H_
#define ASSAY_STORAGE_DATASET_SCOPE_H_

#include <string>

#include "storage/base/json.h"

namespace assay {

// scope_digest of a scope block: "class=treatment:format@bits|...|head=policy|kv=dtype", the
// assignments in the order of their text. No hash.
std::string DatasetScopeDigest(const Json& scope);

}  // namespace assay

#endif  // ASSAY_STORAGE_DATASET_SCOPE_H_
