#include "server/rpc/server.h"

#include <arpa/inet.h>
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "server/rpc/blob_service.h"
#include "server/rpc/capture_service.h"
#include "server/rpc/resource_services.h"
#include "server/rpc/run_service.h"
#include "server/rpc/worker_service.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/uri_path.h"

namespace assay::rpc {
namespace {

constexpr int kPingIntervalMinMs = 10'000;
constexpr int kStreamsPerConnection = 256;
constexpr int kMetadataBytesMax = 16 << 10;

bool IsUnix(const std::string& address) { return address.rfind("unix:", 0) == 0; }

// A socket file that nobody listens on is left over from a process that was killed; it is removed.
// A live one is not.
absl::Status ClearSocket(const std::string& address) {
  const std::string path = address.substr(5);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(name.sun_path)) {
    return InvalidError(
        "LISTEN_INVALID",
        address + ": a Unix socket path has 1 to 107 bytes; choose a shorter folder");
  }
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) return absl::OkStatus();
  if (!S_ISSOCK(st.st_mode)) {
    return InvalidError("LISTEN_INVALID",
                        path + " exists and is no socket; remove it or choose another path");
  }
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool live = fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0;
  if (fd >= 0) ::close(fd);
  if (live)
    return UnavailableError("PORT_IN_USE", address +
                                               ": another process listens there; stop it or choose "
                                               "another address");
  ::unlink(path.c_str());
  return absl::OkStatus();
}

absl::Status CheckAddress(const std::string& address, bool insecure) {
  if (IsUnix(address)) return ClearSocket(address);
  if (address.rfind(':') == std::string::npos) {
    return InvalidError("LISTEN_INVALID", address + ": wanted unix:/path or HOST:PORT");
  }
  if (insecure || IsLocalAddress(address)) return absl::OkStatus();
  return InvalidError("LISTEN_INVALID",
                      address +
                          ": plaintext is only for loopback and Unix sockets; listen there and "
                          "use a tunnel, or give --insecure-plaintext on a trusted network");
}

}  // namespace

bool IsLocalAddress(const std::string& address) {
  if (IsUnix(address)) return true;
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (host == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

struct Server::Impl {
  Impl(Engine* e, int watchers_max)
      : suites(e),
        models(e),
        heads(e),
        captures(e),
        runs(e, watchers_max),
        reports(e),
        receipts(e),
        blobs(e),
        workers(e),
        admin(e) {}
  SuiteServiceImpl suites;
  ModelServiceImpl models;
  HeadServiceImpl heads;
  CaptureServiceImpl captures;
  RunServiceImpl runs;
  ReportServiceImpl reports;
  ReceiptServiceImpl receipts;
  BlobServiceImpl blobs;
  WorkerServiceImpl workers;
  WorkerAdminServiceImpl admin;
  std::vector<std::string> addresses;
  std::unique_ptr<grpc::Server> server;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() { Shutdown(0); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Engine* engine,
                                                      const ServerOptions& options) {
  // Never released: tearing the whole library down with the last server waits up to ten seconds for
  // its pollers.
  [[maybe_unused]] static const bool library_kept = (grpc_init(), true);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto impl = std::make_unique<Impl>(engine, options.watchers_max);
  grpc::ServerBuilder builder;
  std::vector<int> ports(options.listen.size(), 0);
  for (size_t i = 0; i < options.listen.size(); ++i) {
    ASSAY_RETURN_IF_ERROR(CheckAddress(options.listen[i], options.insecure_plaintext));
    builder.AddListeningPort(GrpcAddress(options.listen[i]), grpc::InsecureServerCredentials(),
                             &ports[i]);
  }
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second process must fail, not share
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, options.keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.keepalive_timeout_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // 0: no limit
  // Clients ask too, while they wait for a run that says nothing for long.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kPingIntervalMinMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  // A compressed message is expanded before its size is checked: neither is accepted.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  grpc::ResourceQuota quota("assayd");
  quota.SetMaxThreads(options.max_threads);
  builder.SetResourceQuota(quota);
  for (grpc::Service* service : std::initializer_list<grpc::Service*>{
           &impl->suites, &impl->models, &impl->heads, &impl->captures, &impl->runs, &impl->reports,
           &impl->receipts, &impl->blobs, &impl->workers, &impl->admin}) {
    builder.RegisterService(service);
  }
  impl->server = builder.BuildAndStart();
  for (size_t i = 0; i < options.listen.size(); ++i) {
    const std::string& address = options.listen[i];
    if (impl->server == nullptr || ports[i] == 0) {
      return UnavailableError("PORT_IN_USE",
                              address +
                                  " cannot be listened on (in use, or not an address of this "
                                  "host); stop the other process or choose another address");
    }
    impl->addresses.push_back(IsUnix(address) ? address
                                              : address.substr(0, address.rfind(':') + 1) +
                                                    std::to_string(ports[i]));
  }
  if (impl->server == nullptr)
    return InvalidError("LISTEN_INVALID", "no address to listen on was given");
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const std::vector<std::string>& Server::addresses() const { return impl_->addresses; }

void Server::SetServing(bool serving) {
  if (auto* health = impl_->server->GetHealthCheckService()) health->SetServingStatus(serving);
}

void Server::Shutdown(int64_t ms) {
  if (!impl_->server) return;
  impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(ms));
  impl_->server->Wait();
}

}  // namespace assay::rpc
