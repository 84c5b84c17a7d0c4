#include "client/cli/session.h"

#include "client/cli/interrupt.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/group/group.h"

namespace assay {
namespace {

constexpr int64_t kServerReadyMs = 10'000;
constexpr int64_t kEmbeddedReadyMs = 60'000;  // recovery of a large store

}  // namespace

absl::Status InterruptedError(std::string_view sentence) {
  return Error(absl::StatusCode::kCancelled, "INTERRUPTED", sentence);
}

CLI::Option* AddServerOptions(CLI::App* command, SessionOptions* options) {
  CLI::Option* server = command->add_option(
      "--server", options->server, "Coordinator to use: HOST:PORT, unix:PATH or a socket's path");
  ChannelSecurity* security = &options->security;
  command->add_option("--token-file", security->token_file,
                      "File with the token for --server ($ASSAY_TOKEN_FILE)");
  command->add_option("--tls-ca", security->tls_ca,
                      "CAs (PEM) of the coordinator; needed beyond this machine ($ASSAY_TLS_CA)");
  command->add_option("--tls-cert", security->tls_cert,
                      "This client's certificate, PEM ($ASSAY_TLS_CERT)");
  command->add_option("--tls-key", security->tls_key, "Its private key, PEM ($ASSAY_TLS_KEY)");
  return server;
}

void AddSessionOptions(CLI::App* command, SessionOptions* options) {
  CLI::Option* server = AddServerOptions(command, options);
  command
      ->add_option("--data", options->data,
                   "Data directory of this machine's own coordinator (default: $ASSAY_DATA, else "
                   "$XDG_DATA_HOME/assay, else ~/.local/share/assay)")
      ->excludes(server);
}

absl::StatusOr<std::unique_ptr<Session>> Session::Open(
    const SessionOptions& options, const std::string& command,
    const std::vector<std::string>& model_roots) {
  std::unique_ptr<Session> session(new Session());
  std::string address = options.server;
  if (address.empty()) {
    EmbeddedOptions embedded;
    ASSAY_ASSIGN_OR_RETURN(embedded.data_dir, ResolveDataDir(options.data));
    embedded.command = command;
    embedded.model_roots = model_roots;
    embedded.workers = options.workers;
    embedded.tp = options.tp;
    embedded.threads = options.threads;
    if (embedded.threads == 0 && options.workers > 0) {
      embedded.threads = std::max(1, AffinityCpus() / (options.workers * options.tp));
    }
    ASSAY_ASSIGN_OR_RETURN(session->cluster_, EmbeddedCluster::Start(embedded));
    session->data_dir_ = embedded.data_dir;
    address = session->cluster_->address();
  }
  ClientOptions client;
  if (!session->embedded()) client.security = WithEnvironment(options.security);
  ASSAY_ASSIGN_OR_RETURN(session->client_, Client::Connect(address, client));
  ASSAY_RETURN_IF_ERROR(
      session->client_->WaitReady(session->embedded() ? kEmbeddedReadyMs : kServerReadyMs,
                                  [&session] { return session->CheckGoOn(); }));
  return session;
}

absl::StatusOr<std::unique_ptr<Session>> Session::OpenToRead(SessionOptions options,
                                                             const std::string& command) {
  options.workers = 0;
  return Open(options, command, {});
}

Session::~Session() { Stop(); }

absl::Status Session::StartWorkers() {
  return cluster_ != nullptr ? cluster_->StartWorkers() : absl::OkStatus();
}

absl::Status Session::CheckGoOn() const {
  if (Interrupted())
    return InterruptedError(
        "stopped before the work was done; run the same command again to go on");
  return cluster_ != nullptr ? cluster_->CheckAlive() : absl::OkStatus();
}

void Session::Stop() {
  if (cluster_ == nullptr) return;
  client_.reset();  // first: the coordinator gives open connections seconds to end
  cluster_->Stop();
}

absl::StatusOr<Json> WithListAdvice(absl::StatusOr<Json> answer, const std::string& list,
                                    const std::string& server) {
  if (answer.ok() || answer.status().code() != absl::StatusCode::kNotFound) return answer;
  return Error(answer.status().code(), ReasonOf(answer.status()),
               fmt::format("{}; assay {}{} lists what there is", MessageOf(answer.status()), list,
                           server.empty() ? "" : " --server " + server));
}

}  // namespace assay
