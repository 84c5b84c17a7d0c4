#include "server/rpc/server.h"

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
#include "server/rpc/evidence_service.h"
#include "server/rpc/gate.h"
#include "server/rpc/resource_services.h"
#include "server/rpc/run_service.h"
#include "server/rpc/worker_service.h"
#include "storage/base/local_address.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/uri_path.h"

namespace assay::rpc {
namespace {

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

// Beyond this machine nothing travels in the clear, and nobody comes in without a name.
absl::Status CheckAddress(const std::string& address, const ServerOptions& options) {
  if (IsUnix(address)) return ClearSocket(address);
  if (address.rfind(':') == std::string::npos) {
    return InvalidError("LISTEN_INVALID", address + ": wanted unix:/path or HOST:PORT");
  }
  if (IsLocalAddress(address)) return absl::OkStatus();
  if (options.tls.files.empty()) {
    return InvalidError("LISTEN_INVALID",
                        address +
                            ": plaintext is only for loopback and Unix sockets; give --tls-cert, "
                            "--tls-key and --tls-client-ca, or listen there and use a tunnel");
  }
  if (options.tokens.empty()) {
    return InvalidError("LISTEN_INVALID",
                        address +
                            ": without tokens every holder of a certificate could do "
                            "everything; make some with assayd token create");
  }
  return absl::OkStatus();
}

void SetLimits(const Limits& limits, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second process must fail
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, limits.keepalive_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, limits.keepalive_timeout_ms);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // 0: no limit
  // Clients ask too, while they wait for a run that says nothing for long.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              limits.ping_interval_min_ms);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, limits.connection_age_ms);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, limits.connection_age_grace_ms);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits.connection_idle_ms);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.streams_per_connection_max);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, limits.metadata_bytes_max);
  builder->SetMaxReceiveMessageSize(limits.message_bytes_max);
  builder->SetMaxSendMessageSize(limits.message_bytes_max);
  // A compressed message is expanded before its size is checked: neither is accepted.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  grpc::ResourceQuota quota("assayd");
  quota.SetMaxThreads(limits.threads_max);
  builder->SetResourceQuota(quota);
}

}  // namespace

struct Server::Impl {
  Impl(Engine* e, std::unique_ptr<Gate> g, int watchers_max)
      : gate(std::move(g)),
        suites(e, gate.get()),
        models(e, gate.get()),
        heads(e, gate.get()),
        captures(e, gate.get()),
        evidence(e, gate.get()),
        runs(e, gate.get(), watchers_max),
        reports(e, gate.get()),
        receipts(e, gate.get()),
        blobs(e, gate.get()),
        workers(e, gate.get()),
        admin(e, gate.get()) {}
  const std::unique_ptr<Gate> gate;  // first: the services use it to their end
  SuiteServiceImpl suites;
  ModelServiceImpl models;
  HeadServiceImpl heads;
  CaptureServiceImpl captures;
  EvidenceServiceImpl evidence;
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
  ASSAY_ASSIGN_OR_RETURN(auto gate, Gate::Open({options.tokens, options.audit, options.limits}));
  auto impl = std::make_unique<Impl>(engine, std::move(gate), options.limits.watchers_max);
  grpc::ServerBuilder builder;
  std::shared_ptr<grpc::ServerCredentials> tls;
  if (!options.tls.files.empty()) {
    ASSAY_ASSIGN_OR_RETURN(tls, MakeTlsCredentials(options.tls));
  }
  std::vector<int> ports(options.listen.size(), 0);
  for (size_t i = 0; i < options.listen.size(); ++i) {
    ASSAY_RETURN_IF_ERROR(CheckAddress(options.listen[i], options));
    const bool plain = tls == nullptr || IsUnix(options.listen[i]);
    builder.AddListeningPort(GrpcAddress(options.listen[i]),
                             plain ? grpc::InsecureServerCredentials() : tls, &ports[i]);
  }
  SetLimits(options.limits, &builder);
  for (grpc::Service* service : std::initializer_list<grpc::Service*>{
           &impl->suites, &impl->models, &impl->heads, &impl->captures, &impl->evidence,
           &impl->runs, &impl->reports, &impl->receipts, &impl->blobs, &impl->workers,
           &impl->admin}) {
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
