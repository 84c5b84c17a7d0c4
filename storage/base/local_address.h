// Where plaintext is acceptable.

#ifndef ASSAY_STORAGE_BASE_LOCAL_ADDRESS_H_
#define ASSAY_STORAGE_BASE_LOCAL_ADDRESS_H_

#include <string>
#include <string_view>

namespace assay {

// True for a Unix socket (unix:PATH or /PATH) and for HOST:PORT on this machine's loopback:
// 127.x.x.x,
// [::1] or localhost. Names are not looked up.
bool IsLocalAddress(std::string_view address);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_LOCAL_ADDRESS_H_
