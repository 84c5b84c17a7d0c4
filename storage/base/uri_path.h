// File paths inside URIs.

#ifndef ASSAY_STORAGE_BASE_URI_PATH_H_
#define ASSAY_STORAGE_BASE_URI_PATH_H_

#include <string>
#include <string_view>

namespace assay {

// `address` as gRPC reads it: it takes "unix:PATH" for a URI, ends the path at '?' or '#' and
// decodes "%20", so those bytes are written as %XX. Other addresses are returned as they are.
std::string GrpcAddress(std::string_view address);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_URI_PATH_H_
