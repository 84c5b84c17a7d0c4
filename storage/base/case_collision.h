// Paths that are one file where letters' case does not count, as on macOS and Windows: whoever
// downloads both there keeps one of them, under either name.

#ifndef ASSAY_STORAGE_BASE_CASE_COLLISION_H_
#define ASSAY_STORAGE_BASE_CASE_COLLISION_H_

#include <span>
#include <string>

namespace assay {

// The first two of `paths`, or two of their folders, that differ in the case of ASCII letters
// alone, as "A and B"; "" when there are none. A path may stand there twice.
std::string CaseCollision(std::span<const std::string> paths);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_CASE_COLLISION_H_
