// The gRPC server: listeners, limits, health, reflection.

#ifndef ASSAY_SERVER_RPC_SERVER_H_
#define ASSAY_SERVER_RPC_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"

namespace assay::rpc {

struct ServerOptions {
  std::vector<std::string> listen;  // "unix:/path", "HOST:PORT" (port 0: any)
  bool insecure_plaintext = false;  // allow plaintext TCP beyond loopback
  int max_message_bytes = 4 << 20;
  int max_threads = 512;
  int watchers_max = 256;  // streams of WatchRun at a time; each holds a thread
  // A connection whose other end says nothing for this long is asked, and closed without an answer:
  // a host that lost power must not keep an upload's blob to itself.
  int keepalive_ms = 20'000;
  int keepalive_timeout_ms = 20'000;
};

class Server {
 public:
  // LISTEN_INVALID for an address that is no loopback or Unix socket (unless insecure_plaintext) or
  // malformed; PORT_IN_USE naming the address. `engine` must outlive the server.
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

// True for a Unix socket or a loopback address: where plaintext is acceptable.
bool IsLocalAddress(const std::string& address);

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_SERVER_H_
