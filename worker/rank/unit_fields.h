// Small readers shared by the unit kinds.

#ifndef ASSAY_WORKER_RANK_UNIT_FIELDS_H_
#define ASSAY_WORKER_RANK_UNIT_FIELDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/base/json_fields.h"

namespace assay {

// The array `key` of `fields`, with `min` to `max` elements.
absl::StatusOr<const Json*> UnitArray(const JsonFields& fields, std::string_view key, size_t min,
                                      size_t max);

// The member `key` as a vector of int32 in [min, 2^31).
absl::StatusOr<std::vector<int32_t>> UnitTokens(const JsonFields& fields, std::string_view key,
                                                int32_t min);

// The member "model": {"path", "transform"}.
struct UnitModel {
  std::string path;
  std::string transform;
};
absl::StatusOr<UnitModel> ReadUnitModel(const JsonFields& fields);

}  // namespace assay

#endif  // ASSAY_WORKER_RANK_UNIT_FIELDS_H_
