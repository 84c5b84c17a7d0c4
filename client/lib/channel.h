// Addresses of coordinators and gRPC channels to them.

#ifndef ASSAY_CLIENT_LIB_CHANNEL_H_
#define ASSAY_CLIENT_LIB_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay {

inline constexpr int kMessageBytesMax = 4 << 20;  // of the wire contract, both directions

// HOST:PORT, [IPV6]:PORT, unix:PATH or an absolute PATH of a socket, as a gRPC target.
// ADDRESS_INVALID says what is accepted.
absl::StatusOr<std::string> ParseServerAddress(std::string_view text);

// How a client shows who it is, and knows whom it talks to. Files, so that no secret is on a
// command line; each is read again when a connection (certificates) or a call (token) begins.
struct ChannelSecurity {
  std::string tls_ca;  // CAs (PEM) of the coordinator; "" = plaintext, on this machine only
  std::string tls_cert, tls_key;  // this client's certificate and private key (PEM), with tls_ca
  std::string token_file;         // its first line is the token; "" = none
};
// The same from ASSAY_TLS_CA, ASSAY_TLS_CERT, ASSAY_TLS_KEY and ASSAY_TOKEN_FILE where a field is
// "".
ChannelSecurity WithEnvironment(ChannelSecurity security);

// A lazy channel: nothing is sent before the first call. Plaintext, for sockets of this machine.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target);

// A lazy channel to `address` (see ParseServerAddress): encrypted with tls_ca, except on Unix
// sockets. ADDRESS_INVALID; TLS_REQUIRED for plaintext beyond this machine; TLS_INVALID for files
// that are missing or given in part; TOKEN_FILE_INVALID.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& address,
                                                           const ChannelSecurity& security);

// What a finished call means. OK for OK. A reason token in the trailing metadata ("assay-reason")
// is kept with its code and message. Without one the library itself failed: SERVER_UNREACHABLE
// (nobody answers at `server`), SERVER_TIMEOUT, CALL_CANCELLED, SERVER_TOO_OLD (no such method) or
// RPC_FAILED. `context` is that of the finished call.
absl::Status FromRpc(const grpc::Status& status, const grpc::ClientContext& context,
                     std::string_view server);

// True for an error after which the same idempotent call may succeed: UNAVAILABLE
// (SERVER_UNREACHABLE and DRAINING among them), DEADLINE_EXCEEDED, ABORTED.
bool IsTransient(const absl::Status& status);

// Sets the deadline of a call `ms` from now.
void SetDeadline(grpc::ClientContext* context, int64_t ms);

// Exponential delays with jitter in [1/2, 1] of the full delay, so that many clients of a restarted
// server do not return at the same moment. Not thread-safe.
class Backoff {
 public:
  Backoff(int64_t first_ms, int64_t max_ms) : first_ms_(first_ms), max_ms_(max_ms) {}
  int64_t NextMs();
  void Reset() { failures_ = 0; }

 private:
  const int64_t first_ms_, max_ms_;
  int failures_ = 0;
};

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_CHANNEL_H_
