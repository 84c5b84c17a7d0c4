// The gRPC server: listeners, limits, health, reflection.

#ifndef ASSAY_SERVER_RPC_SERVER_H_
#define ASSAY_SERVER_RPC_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/rpc/limits.h"
#include "server/rpc/tls.h"

namespace assay::rpc {

struct ServerOptions {
  std::vector<std::string> listen;  // "unix:/path", "HOST:PORT" (port 0: any)
  TlsOptions tls;                   // of the TCP listeners; Unix sockets stay plaintext
  std::string tokens, audit;        // files, see GateOptions
  Limits limits;
};

class Server {
 public:
  // LISTEN_INVALID for an address that is malformed, or beyond loopback without both TLS and
  // tokens; PORT_IN_USE naming the address; the errors of TLS and token files. `engine` must
  // outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Engine* engine,
                                                       const ServerOptions& options);
  ~Server();

  // Addresses as bound: a port 0 is replaced by the real one.
  const std::vector<std::string>& addresses() const;
  void SetServing(bool serving);
  // Ends calls; those still running after `ms` are cancelled.
  void Shutdown(int64_t ms);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_SERVER_H_
