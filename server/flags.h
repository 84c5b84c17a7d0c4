// Flags of assayd. Names are also those of a future configuration file.

#ifndef ASSAY_SERVER_FLAGS_H_
#define ASSAY_SERVER_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"

namespace assay {

struct Flags {
  EngineOptions engine;
  rpc::ServerOptions server;
  std::string metrics;     // HOST:PORT; "" = none
  std::string ready_file;  // written with the bound addresses, one a line, once serving; "" = none
  int parent_fd = -1;      // exit when it reaches end of file
  int64_t drain_ms = 3000;
  bool help = false, version = false;
};

// FLAG_INVALID naming the flag. Accepts --name=value and --name value.
absl::StatusOr<Flags> ParseFlags(int argc, char** argv);
std::string HelpText();
// Where data lies without --data: $ASSAY_DATA, else assay below the XDG data folder.
std::string DefaultDataDir();

// In the data folder.
inline constexpr char kTokensFile[] = "tokens.json";
inline constexpr char kAuditFile[] = "audit.jsonl";

}  // namespace assay

#endif  // ASSAY_SERVER_FLAGS_H_
