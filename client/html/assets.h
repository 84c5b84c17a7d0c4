// The texts that every page carries inside itself, put into the program when it is built: D3 and
// its licence from Debian's libjs-d3, our own style and scripts from client/html/assets.
//
// None holds "</script", "</style", "<!--" or a carriage return (embed.cmake refuses those), so
// each can stand in its element as it is.

#ifndef ASSAY_CLIENT_HTML_ASSETS_H_
#define ASSAY_CLIENT_HTML_ASSETS_H_

#include <string_view>

namespace assay {

std::string_view D3Script();
std::string_view D3Licence();  // Debian's copyright file: plain text, to be escaped
std::string_view PageStyle();
std::string_view CommonScript();     // what both kinds of page use
std::string_view CandidateScript();  // figures of one candidate
std::string_view IndexScript();      // figures over all candidates

}  // namespace assay

#endif  // ASSAY_CLIENT_HTML_ASSETS_H_
