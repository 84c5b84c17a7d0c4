// How a person names a model: PATH or PATH@TRANSFORM.

#ifndef ASSAY_STORAGE_FORMAT_MODEL_SPEC_H_
#define ASSAY_STORAGE_FORMAT_MODEL_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay {

// Round to nearest, symmetric, weights only: the one transform so far. bits 2..8; group 0 means one
// scale per output row ("channel").
struct RtnTransform {
  int bits = 8;
  uint64_t group = 0;
  std::string Canonical() const;  // "rtn:bits=4,group=32" or "rtn:bits=8,group=channel"
};

inline constexpr int kRtnBitsMin = 2;
inline constexpr int kRtnBitsMax = 8;
inline constexpr uint64_t kRtnGroupMax = 1 << 20;

// Parses "rtn:bits=B,group=N|channel" (either order, each once; group defaults to channel).
// TRANSFORM_INVALID says what is accepted.
absl::StatusOr<RtnTransform> ParseRtnTransform(std::string_view text);

struct ModelSpec {
  std::string path;       // as given
  std::string transform;  // canonical; "" for none
};

// Why there is no model at `path`. TRANSFORM_INVALID when only what stands after its last '@' keeps
// it from being a file or folder, and looks like a transform: "model.gguf@awq". MODEL_MISSING
// otherwise.
absl::Status MissingModelError(const std::string& path);

// '@' counts only before a known transform name and ':', so paths may hold '@'. MODEL_SPEC_INVALID
// for an empty path, TRANSFORM_INVALID for a known name with wrong arguments.
absl::StatusOr<ModelSpec> ParseModelSpec(std::string_view text);

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_MODEL_SPEC_H_
