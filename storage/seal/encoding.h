// Base64 (RFC 4648, with padding) as DSSE envelopes and signed notes use it.

#ifndef ASSAY_STORAGE_SEAL_ENCODING_H_
#define ASSAY_STORAGE_SEAL_ENCODING_H_

#include <optional>
#include <string>
#include <string_view>

namespace assay {

std::string Base64(std::string_view bytes);

// The bytes, or nothing unless `text` is exactly what Base64 writes for them: no blanks, full
// padding, no stray bits. One encoding per value, so a changed character is always noticed.
std::optional<std::string> BytesOfBase64(std::string_view text);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_ENCODING_H_
