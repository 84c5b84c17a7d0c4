// A coordinator that nobody can reach must end, so that whoever supervises it starts it again: gRPC
// stops listening for good once a connection finds no free file descriptor.

#ifndef ASSAY_SERVER_RPC_LISTENER_PROBE_H_
#define ASSAY_SERVER_RPC_LISTENER_PROBE_H_

#include <cstdint>
#include <string>

namespace assay::rpc {

// Whether a connection to `address` (unix:PATH or HOST:PORT, as Server::addresses() gives them) is
// answered within `ms` with the bytes that every HTTP/2 server sends first, or, with `tls` and TCP,
// with an answer to the first bytes of a TLS client.
bool ListenerAnswers(const std::string& address, int64_t ms, bool tls = false);

// Raises this process's soft limit of file descriptors to the hard one.
void RaiseDescriptorLimit();

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_LISTENER_PROBE_H_
