// What to say of words on the command line that no command or option is called.

#ifndef ASSAY_CLIENT_CLI_UNKNOWN_WORDS_H_
#define ASSAY_CLIENT_CLI_UNKNOWN_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"

namespace assay {

// The word of `known` that `typed` was most likely meant to be; "" when none is near.
std::string NearestWord(std::string_view typed, const std::vector<std::string>& known);

// A sentence about a word that neither `app` nor the command chosen from it could place: "there is
// no option --refrence; did you mean --reference?". "" when all were placed. Call after parsing.
std::string DescribeUnknown(const CLI::App& app);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_UNKNOWN_WORDS_H_
