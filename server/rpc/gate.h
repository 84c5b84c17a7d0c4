// The gate that every call goes through: who calls (server/auth/tokens.h), whether the role may
// (access.h), whether there is room (limits.h), and what is written of it (server/auth/audit.h).

#ifndef ASSAY_SERVER_RPC_GATE_H_
#define ASSAY_SERVER_RPC_GATE_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/audit.h"
#include "server/auth/tokens.h"
#include "server/rpc/access.h"
#include "server/rpc/limits.h"

namespace assay::rpc {

struct GateOptions {
  std::string tokens;  // file; "": no tokens, every caller is the administrator "local"
  std::string audit;   // file; "": none
  Limits limits;
  int revoke_check_ms = 1000;  // how soon running calls of a revoked token end
};

class Call;

// Thread-safe.
class Gate {
 public:
  // TOKENS_INVALID, TOKENS_PERMISSIONS, FILE_*.
  static absl::StatusOr<std::unique_ptr<Gate>> Open(const GateOptions& options);
  ~Gate();

  const Limits& limits() const { return options_.limits; }

 private:
  friend class Call;
  struct Usage {
    int calls = 0, uploads = 0;
  };
  explicit Gate(GateOptions options) : options_(std::move(options)) {}
  absl::StatusOr<Caller> Identify(const grpc::ServerContextBase& context);
  absl::Status Enter(Call* call, grpc::ServerContextBase* context);
  void Leave(Call* call);
  void Watch();

  const GateOptions options_;
  std::unique_ptr<TokenStore> tokens_;
  std::unique_ptr<AuditLog> audit_;
  std::mutex mutex_;
  std::condition_variable cv_;
  bool stop_ = false;
  std::map<std::string, Usage> usage_;  // by peer: principal, or address without tokens
  int uploads_ = 0;
  std::map<Call*, grpc::ServerContextBase*> calls_;
  std::thread watcher_;
};

// One call, for as long as it runs. A handler begins with
//
//   Call call(gate_, context, "RunService/GetRun");
//   if (!call.admitted()) return call.refusal();
class Call {
 public:
  Call(Gate* gate, grpc::ServerContextBase* context, std::string_view method);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool admitted() const { return admission_.ok(); }
  grpc::Status refusal() const;
  const std::string& principal() const { return caller_.name; }
  bool is_admin() const { return caller_.role == Role::kAdmin; }
  // Ends a call that changes something: writes it to the audit log, gives its status.
  grpc::Status Answer(const absl::Status& status, const std::string& resource);
  // A line of the audit log, for calls that do several things.
  void Audit(const std::string& resource, const std::string& outcome, const std::string& reason);

 private:
  friend class Gate;
  Gate* gate_;
  grpc::ServerContextBase* context_;
  const std::string method_;
  const AccessRow* row_;
  Caller caller_;
  std::string peer_;  // key of Gate::usage_
  absl::Status admission_;
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_GATE_H_
