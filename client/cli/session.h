// A connection to a coordinator: a running one, or one that lives for the time of the command.

#ifndef ASSAY_CLIENT_CLI_SESSION_H_
#define ASSAY_CLIENT_CLI_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/command.h"
#include "client/lib/client.h"
#include "client/lib/embedded.h"

namespace assay {

struct SessionOptions {
  std::string server;  // address; "" = embedded
  std::string data;    // data directory of an embedded one; "" = the default
  int workers = 1, tp = 1, threads = 0;
  ChannelSecurity security;  // of a running one
};

// Adds --server with what goes with it, as AddServerOptions does, and --data.
void AddSessionOptions(CLI::App* command, SessionOptions* options);
// Adds --server, --token-file, --tls-ca, --tls-cert, --tls-key; the --server option.
CLI::Option* AddServerOptions(CLI::App* command, SessionOptions* options);

class Session {
 public:
  // Connects and waits until the coordinator answers. `model_roots` are for embedded workers, which
  // StartWorkers starts;
  // `command` names this command for others that want the data directory.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const SessionOptions& options,
                                                       const std::string& command,
                                                       const std::vector<std::string>& model_roots);
  // Only reads: an embedded coordinator gets no workers.
  static absl::StatusOr<std::unique_ptr<Session>> OpenToRead(SessionOptions options,
                                                             const std::string& command);
  ~Session();

  Client& client() { return *client_; }
  bool embedded() const { return cluster_ != nullptr; }
  const std::string& data_dir() const { return data_dir_; }  // "" when not embedded

  // Starts an embedded coordinator's workers; nothing for a running one.
  absl::Status StartWorkers();

  // For long calls: INTERRUPTED (kCancelled) after Ctrl-C, or the death of an embedded process.
  absl::Status CheckGoOn() const;
  void Stop();  // embedded processes end here, and with them client()

 private:
  Session() = default;
  std::string data_dir_;
  std::unique_ptr<EmbeddedCluster> cluster_;
  std::unique_ptr<Client> client_;
};

// An answer about something named on the command line: where the coordinator does not know it
// (NOT_FOUND), the error says that "assay LIST" (with --server where there is one) lists what there
// is.
absl::StatusOr<Json> WithListAdvice(absl::StatusOr<Json> answer, const std::string& list,
                                    const std::string& server);

// The error of Ctrl-C.
absl::Status InterruptedError(std::string_view sentence);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_SESSION_H_
