#include "server/rpc/tls.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "storage/base/macros.h"

namespace assay::rpc {

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTlsCredentials(
    const TlsOptions& options) {
  ASSAY_RETURN_IF_ERROR(CheckTlsFiles(options.files));
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      options.files.key, options.files.certificate, options.files.client_ca, options.reload_s);
  grpc::experimental::TlsServerCredentialsOptions credentials(provider);
  credentials.watch_root_certs();
  credentials.watch_identity_key_cert_pairs();
  credentials.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(credentials);
}

}  // namespace assay::rpc
