#include "client/lib/channel_credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/stat.h>

#include <cstdlib>

#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/local_address.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr uint64_t kTokenBytesMax = 4096;
constexpr unsigned kReloadSeconds = 10;

bool IsUnix(const std::string& address) {
  return address.rfind("unix:", 0) == 0 || address.rfind('/', 0) == 0;
}

void FromEnvironment(const char* name, std::string* field) {
  const char* value = std::getenv(name);
  if (field->empty() && value != nullptr) *field = value;
}

class TokenInterceptor : public grpc::experimental::Interceptor {
 public:
  explicit TokenInterceptor(const std::string& path) : path_(path) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_INITIAL_METADATA)) {
      // A file that is gone now sends no token: the coordinator says what is missing.
      if (const auto token = ReadTokenFile(path_); token.ok()) {
        methods->GetSendInitialMetadata()->emplace("authorization", "Bearer " + *token);
      }
    }
    methods->Proceed();
  }

 private:
  const std::string& path_;
};

class TokenInterceptorFactory : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptorFactory(std::string path) : path_(std::move(path)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new TokenInterceptor(path_);
  }

 private:
  const std::string path_;
};

}  // namespace

ChannelSecurity WithEnvironment(ChannelSecurity security) {
  FromEnvironment("ASSAY_TLS_CA", &security.tls_ca);
  FromEnvironment("ASSAY_TLS_CERT", &security.tls_cert);
  FromEnvironment("ASSAY_TLS_KEY", &security.tls_key);
  FromEnvironment("ASSAY_TOKEN_FILE", &security.token_file);
  return security;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    const std::string& address, const ChannelSecurity& security) {
  const bool tls = !security.tls_ca.empty();
  if (!tls && !IsLocalAddress(address)) {
    return InvalidError(
        "TLS_REQUIRED",
        fmt::format("{} is not on this machine, and nothing is sent there in the "
                    "clear; give --tls-ca, --tls-cert and --tls-key, or use a tunnel "
                    "to a loopback address",
                    address));
  }
  if (tls != !security.tls_cert.empty() || tls != !security.tls_key.empty()) {
    return InvalidError("TLS_INVALID",
                        "mutual TLS needs all three of --tls-ca, --tls-cert and --tls-key");
  }
  if (!tls || IsUnix(address)) return grpc::InsecureChannelCredentials();
  for (const std::string& path : {security.tls_ca, security.tls_cert, security.tls_key}) {
    if (!FileExists(path)) {
      return InvalidError("TLS_INVALID", path + " does not exist; it should be a file in PEM form");
    }
  }
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      security.tls_key, security.tls_cert, security.tls_ca, kReloadSeconds);
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  const auto invalid = [&](const std::string& what) {
    return InvalidError("TOKEN_FILE_INVALID", path + ": " + what);
  };
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return invalid("there is no such file");
  if ((info.st_mode & S_IRWXO) != 0) {
    return invalid("every user of this machine may use it; run chmod 600");
  }
  const auto bytes = ReadFile(path, kTokenBytesMax);
  if (!bytes.ok()) return invalid(MessageOf(bytes.status()));
  const std::string token = bytes->substr(0, bytes->find_first_of("\r\n"));
  if (token.empty() ||
      token.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos) {
    return invalid("its first line is no token, as assayd token create prints it");
  }
  return token;
}

std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> MakeTokenInterceptor(
    const std::string& path) {
  return std::make_unique<TokenInterceptorFactory>(path);
}

bool IsTlsFailure(std::string_view text) {
  for (const std::string_view mark : {"SSL", "ssl", "handshake", "certificate", "Peer"}) {
    if (text.find(mark) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace assay
