// Which build this is, exchanged between programs and named in reports.

#ifndef ASSAY_STORAGE_BASE_BUILD_INFO_H_
#define ASSAY_STORAGE_BASE_BUILD_INFO_H_

#include <string>
#include <string_view>

namespace assay {

// Version of the project, "0.1.0".
std::string_view AssayVersion();

// Identifies the build among those that may meet on the wire: the version, plus "+" and
// -DASSAY_BUILD_ID where the packager gave one.
std::string BuildId();

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_BUILD_INFO_H_
