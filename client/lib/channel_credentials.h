// What a channel shows to a coordinator: certificates and a token. Internal to client/lib.

#ifndef ASSAY_CLIENT_LIB_CHANNEL_CREDENTIALS_H_
#define ASSAY_CLIENT_LIB_CHANNEL_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/lib/channel.h"

namespace assay {

// TLS_REQUIRED, TLS_INVALID.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    const std::string& address, const ChannelSecurity& security);

// The token in a file. TOKEN_FILE_INVALID when it is missing, open to every user of this machine,
// or holds no token.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

// Puts "authorization: Bearer TOKEN" on every call, the token as the file has it then. (gRPC's own
// call credentials work on encrypted channels alone, and Unix sockets are none.)
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> MakeTokenInterceptor(
    const std::string& path);

// True for the texts that gRPC gives to failed handshakes.
bool IsTlsFailure(std::string_view text);

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_CHANNEL_CREDENTIALS_H_
