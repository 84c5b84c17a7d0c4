// Plain columns for lists.

#ifndef ASSAY_CLIENT_CLI_TABLES_H_
#define ASSAY_CLIENT_CLI_TABLES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace assay {

// Left-aligned columns two blanks apart, the header first; "" for no rows and no header.
std::string TextTable(const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows);

// Columns of the terminal on standard output; `otherwise` where there is none.
size_t TerminalColumns(size_t otherwise = 100);

// "2026-11-30T12:00:00Z" of milliseconds since 1970; "-" for 0.
std::string TimeText(int64_t unix_millis);

// The first 12 characters of the part after "/": a name that a person can compare.
std::string ShortName(const std::string& name);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_TABLES_H_
