// Text from outside (labels, strata, paths, token pieces) on a page.

#ifndef ASSAY_CLIENT_HTML_ESCAPE_H_
#define ASSAY_CLIENT_HTML_ESCAPE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// For element content and for attributes in double quotes: & < > " ' become character references.
// What cannot be seen or moves what stands around it (controls, bidirectional and zero-width
// characters, line separators, byte-order marks) is spelled out as \u{202E}; bytes that are no
// UTF-8 become '?'.
std::string HtmlText(std::string_view text);

// A token's text in visible form, then as HtmlText: newline, tab and return as \n, \t, \r, blanks
// at either end as U+2423, bytes that are no UTF-8 as \xNN.
std::string HtmlToken(std::string_view bytes);

// RFC 8785 JSON for the inside of a script element: < > & and every character that HtmlText spells
// out are written as \uNNNN, so no text can end the element. Parses to `value`.
absl::StatusOr<std::string> ScriptJson(const Json& value);

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_ESCAPE_H_
