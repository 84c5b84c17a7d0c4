#include "client/lib/channel.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "client/lib/channel_credentials.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/uri_path.h"

namespace assay {
namespace {

constexpr char kReasonKey[] = "assay-reason";

bool IsPort(std::string_view text) {
  if (text.empty() || text.size() > 5) return false;
  int value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
  }
  return value >= 1 && value <= 65535;
}

}  // namespace

absl::StatusOr<std::string> ParseServerAddress(std::string_view text) {
  if (text.substr(0, 5) == "unix:" && text.size() > 5) return std::string(text);
  if (text.substr(0, 1) == "/") return "unix:" + std::string(text);
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && colon > 0 && IsPort(text.substr(colon + 1))) {
    const std::string_view host = text.substr(0, colon);
    const bool bracketed = host.front() == '[' && host.back() == ']';
    if ((bracketed || host.find(':') == std::string_view::npos) &&
        host.find_first_of(" /@") == std::string_view::npos) {
      return "dns:///" + std::string(text);
    }
  }
  return InvalidError("ADDRESS_INVALID",
                      fmt::format("\"{}\" is no address of a coordinator; give HOST:PORT, "
                                  "[IPV6]:PORT, unix:PATH or the absolute path of a socket",
                                  text));
}

namespace {

grpc::ChannelArguments ChannelSettings() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 60000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  // In spite of its name the time that one attempt to connect has: TLS needs several round trips.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Two channels of one process must not share a connection: a bulk transfer would delay leases.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target) {
  return grpc::CreateCustomChannel(GrpcAddress(target), grpc::InsecureChannelCredentials(),
                                   ChannelSettings());
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& address,
                                                           const ChannelSecurity& security) {
  ASSAY_ASSIGN_OR_RETURN(const std::string target, ParseServerAddress(address));
  ASSAY_ASSIGN_OR_RETURN(const auto credentials, ChannelCredentialsFor(address, security));
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (!security.token_file.empty()) {
    ASSAY_RETURN_IF_ERROR(ReadTokenFile(security.token_file).status());
    interceptors.push_back(MakeTokenInterceptor(security.token_file));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      GrpcAddress(target), credentials, ChannelSettings(), std::move(interceptors));
}

absl::Status FromRpc(const grpc::Status& status, const grpc::ClientContext& context,
                     std::string_view server) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto reason = trailers.find(kReasonKey); reason != trailers.end()) {
    return Error(code, std::string_view(reason->second.data(), reason->second.size()),
                 status.error_message());
  }
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      // A refused certificate looks like a dead server to gRPC, but for its text.
      if (IsTlsFailure(status.error_message())) {
        return Error(
            code, "TLS_FAILED",
            fmt::format("no encrypted connection to {} ({}); check that --tls-ca is the CA "
                        "of the coordinator, that its certificate names this address, and "
                        "that --tls-cert is of a CA that it accepts and has not expired",
                        server, status.error_message()));
      }
      return Error(code, "SERVER_UNREACHABLE",
                   fmt::format("no coordinator answers at {} ({}); check the address and that "
                               "assayd runs there",
                               server, status.error_message()));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Error(code, "SERVER_TIMEOUT",
                   fmt::format("the coordinator at {} did not answer in time; it may be overloaded "
                               "or unreachable, try again",
                               server));
    case grpc::StatusCode::CANCELLED:
      return Error(code, "CALL_CANCELLED", fmt::format("a call to {} was cancelled", server));
    case grpc::StatusCode::UNIMPLEMENTED:
      return Error(code, "SERVER_TOO_OLD",
                   fmt::format("the server at {} does not know this call ({}); it is no Assay "
                               "coordinator or an older one",
                               server, status.error_message()));
    default:
      return Error(code, "RPC_FAILED",
                   fmt::format("call to {} failed: {}", server, status.error_message()));
  }
}

bool IsTransient(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded ||
         status.code() == absl::StatusCode::kAborted;
}

void SetDeadline(grpc::ClientContext* context, int64_t ms) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(ms));
}

int64_t Backoff::NextMs() {
  static thread_local std::minstd_rand random{std::random_device{}()};
  const int64_t full = std::min(max_ms_, first_ms_ << std::min(failures_, 20));
  ++failures_;
  return full / 2 + std::uniform_int_distribution<int64_t>(0, full - full / 2)(random);
}

}  // namespace assay
