// A string as CPython's json module writes it with ensure_ascii (specs: qwen-suites 0.1), for those
// who write documents in pieces; whole ones: json.h.

#ifndef ASSAY_STORAGE_BASE_PYTHON_STRING_H_
#define ASSAY_STORAGE_BASE_PYTHON_STRING_H_

#include <string>
#include <string_view>

namespace assay {

// Appends `text`, valid UTF-8, in quotes.
void AppendPythonString(std::string_view text, std::string* out);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_PYTHON_STRING_H_
