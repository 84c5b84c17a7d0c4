// UTF-8 as Protobuf and JSON demand it: text with one wrong byte is refused as a whole.

#ifndef ASSAY_STORAGE_BASE_UTF8_H_
#define ASSAY_STORAGE_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace assay {

// True for well-formed UTF-8: no overlong forms, surrogates or code points beyond U+10FFFF.
bool IsUtf8(std::string_view text);

// `text` with '?' in place of every byte that belongs to no well-formed character: for messages
// that quote what a file or a path holds.
std::string ScrubUtf8(std::string_view text);

// The first bytes of `text`, at most `max_bytes`, without cutting a character in two.
std::string CutUtf8(std::string_view text, size_t max_bytes);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_UTF8_H_
