// Running the command line inside a test.

#ifndef ASSAY_CLIENT_CLI_CLI_TEST_UTIL_H_
#define ASSAY_CLIENT_CLI_CLI_TEST_UTIL_H_

#include <sstream>
#include <string>
#include <vector>

#include "client/cli/command.h"

namespace assay {

struct CliOutcome {
  int code;
  std::string out, err;
};

// `assay ARGS...`, standard output not a terminal.
inline CliOutcome Invoke(std::vector<const char*> args) {
  args.insert(args.begin(), "assay");
  std::ostringstream out, err;
  const int code = RunCli(static_cast<int>(args.size()), args.data(), out, err, false);
  return {code, out.str(), err.str()};
}

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_CLI_TEST_UTIL_H_
