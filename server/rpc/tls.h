// Mutual TLS for listeners, with certificates that are read again while the server runs.
//
// gRPC calls this API experimental; it appears in this file alone.

#ifndef ASSAY_SERVER_RPC_TLS_H_
#define ASSAY_SERVER_RPC_TLS_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/auth/certificates.h"

namespace assay::rpc {

struct TlsOptions {
  TlsFiles files;  // all empty: no TLS
  // How often the files are looked at. A replaced certificate, key or CA counts for new
  // connections; files that do not fit together keep the earlier ones in use.
  unsigned reload_s = 10;
};

// Credentials that want and verify a client's certificate. CheckTlsFiles' errors.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTlsCredentials(
    const TlsOptions& options);

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_TLS_H_
