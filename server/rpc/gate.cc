#include "server/rpc/gate.h"

#include <chrono>
#include <iterator>

#include "server/rpc/status.h"
#include "storage/base/clock.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::rpc {
namespace {

constexpr std::string_view kBearer = "Bearer ";
constexpr const char* kLocal = "local";

int64_t NowMs() { return Clock::Real()->UnixMillis(); }

// A host's address without the port of one connection.
std::string HostOf(const std::string& peer) {
  if (peer.rfind("unix:", 0) == 0) return "unix";
  return peer.substr(0, peer.rfind(':'));
}

// The name in the peer's certificate, "" without one.
std::string CertificateOf(const grpc::ServerContextBase& context) {
  const auto auth = context.auth_context();
  if (auth == nullptr) return "";
  for (const char* name : {"peer_uri", "peer_dns", "x509_common_name"}) {
    const auto values = auth->FindPropertyValues(name);
    if (!values.empty()) return std::string(values.front().data(), values.front().size());
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gate>> Gate::Open(const GateOptions& options) {
  std::unique_ptr<Gate> gate(new Gate(options));
  if (!options.tokens.empty()) {
    ASSAY_ASSIGN_OR_RETURN(gate->tokens_, TokenStore::Open(options.tokens));
    gate->watcher_ = std::thread([g = gate.get()] { g->Watch(); });
  }
  if (!options.audit.empty()) {
    ASSAY_ASSIGN_OR_RETURN(gate->audit_, AuditLog::Open(options.audit));
  }
  return gate;
}

Gate::~Gate() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    cv_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

// Ends the running calls of tokens that do not count any more.
void Gate::Watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    cv_.wait_for(lock, std::chrono::milliseconds(options_.revoke_check_ms));
    for (const auto& [call, context] : calls_) {
      if (!tokens_->Counts(call->caller_.token_id, NowMs())) context->TryCancel();
    }
  }
}

absl::StatusOr<Caller> Gate::Identify(const grpc::ServerContextBase& context) {
  if (tokens_ == nullptr) return Caller{kLocal, "", Role::kAdmin};
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  if (begin == end) {
    return Error(absl::StatusCode::kUnauthenticated, "TOKEN_MISSING",
                 "this coordinator wants a token; give the file with yours as --token-file or in "
                 "ASSAY_TOKEN_FILE");
  }
  const std::string_view value(begin->second.data(), begin->second.size());
  if (std::next(begin) != end || value.substr(0, kBearer.size()) != kBearer) {
    return Error(absl::StatusCode::kUnauthenticated, "TOKEN_INVALID",
                 "the header \"authorization\" must be there once, as \"Bearer TOKEN\"");
  }
  return tokens_->Authenticate(value.substr(kBearer.size()), NowMs());
}

absl::Status Gate::Enter(Call* call, grpc::ServerContextBase* context) {
  ASSAY_ASSIGN_OR_RETURN(call->caller_, Identify(*context));
  const Caller& caller = call->caller_;
  // Without tokens there are no roles: whoever reaches the socket may do everything.
  const bool may =
      call->row_ != nullptr && (tokens_ == nullptr || (call->row_->roles & Bit(caller.role)) != 0);
  if (!may) {
    return Error(absl::StatusCode::kPermissionDenied, "ROLE_DENIED",
                 "the token " + caller.name + " has the role " +
                     std::string(RoleName(caller.role)) + ", which may not call " + call->method_ +
                     "; ask the administrator for a token of another role");
  }
  call->peer_ = tokens_ == nullptr ? HostOf(context->peer()) : caller.name;
  const bool upload = call->row_->kind == CallKind::kUpload;
  const Limits& limits = options_.limits;
  const std::lock_guard lock(mutex_);
  const auto found = usage_.find(call->peer_);
  const Usage used = found == usage_.end() ? Usage() : found->second;
  if (used.calls >= limits.calls_per_peer_max) {
    return UnavailableError("TOO_MANY_CALLS", std::to_string(limits.calls_per_peer_max) +
                                                  " calls of " + call->peer_ +
                                                  " are running; try again in a moment");
  }
  if (upload && (uploads_ >= limits.uploads_max || used.uploads >= limits.uploads_per_peer_max)) {
    return UnavailableError("TOO_MANY_UPLOADS", std::to_string(uploads_) +
                                                    " uploads are running, " +
                                                    std::to_string(used.uploads) + " of " +
                                                    call->peer_ + "; try again in a moment");
  }
  Usage& usage = usage_[call->peer_];
  ++usage.calls;
  if (upload) ++usage.uploads, ++uploads_;
  if (tokens_ != nullptr) calls_[call] = context;
  return absl::OkStatus();
}

void Gate::Leave(Call* call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(call);
  const auto usage = usage_.find(call->peer_);
  if (call->row_->kind == CallKind::kUpload) --usage->second.uploads, --uploads_;
  if (--usage->second.calls == 0) usage_.erase(usage);
}

Call::Call(Gate* gate, grpc::ServerContextBase* context, std::string_view method)
    : gate_(gate), context_(context), method_(method), row_(FindAccess(method)) {
  admission_ = gate_->Enter(this, context);
  const absl::StatusCode code = admission_.code();
  if (code == absl::StatusCode::kUnauthenticated || code == absl::StatusCode::kPermissionDenied) {
    Audit("", std::string(absl::StatusCodeToString(code)), ReasonOf(admission_));
  }
}

Call::~Call() {
  if (admitted()) gate_->Leave(this);
}

grpc::Status Call::refusal() const { return ToGrpc(admission_, context_); }

grpc::Status Call::Answer(const absl::Status& status, const std::string& resource) {
  Audit(resource, std::string(absl::StatusCodeToString(status.code())), ReasonOf(status));
  return ToGrpc(status, context_, status.ok() ? "" : resource);
}

void Call::Audit(const std::string& resource, const std::string& outcome,
                 const std::string& reason) {
  if (gate_->audit_ == nullptr) return;
  gate_->audit_->Write({{"principal", caller_.name},
                        {"role", caller_.name.empty() ? "" : std::string(RoleName(caller_.role))},
                        {"token", caller_.token_id},
                        {"peer", context_->peer()},
                        {"certificate", CertificateOf(*context_)},
                        {"method", method_},
                        {"resource", resource},
                        {"outcome", outcome},
                        {"reason", reason}});
}

}  // namespace assay::rpc
