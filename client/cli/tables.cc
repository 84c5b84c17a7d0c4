#include "client/cli/tables.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "storage/base/clock.h"

namespace assay {

std::string TextTable(const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  const auto measure = [&](const std::vector<std::string>& row) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  };
  measure(header);
  for (const auto& row : rows) measure(row);
  std::string text;
  const auto append = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  };
  if (!header.empty()) append(header);
  for (const auto& row : rows) append(row);
  return text;
}

size_t TerminalColumns(size_t otherwise) {
  winsize size{};
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const bool known = terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : otherwise;
}

std::string TimeText(int64_t unix_millis) { return unix_millis > 0 ? FormatUtc(unix_millis) : "-"; }

std::string ShortName(const std::string& name) {
  const size_t slash = name.find('/');
  return slash == std::string::npos ? name : name.substr(0, slash + 13);
}

}  // namespace assay
