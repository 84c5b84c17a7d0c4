// The coordinator's public plane as calls on JSON documents (proto_json.h).

#ifndef ASSAY_CLIENT_LIB_CLIENT_H_
#define ASSAY_CLIENT_LIB_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/blob_transfer.h"
#include "client/lib/channel.h"
#include "storage/base/json.h"

namespace assay {

// Where an operand of a run comes from: a model, or a capture with (or without) a head of its own.
struct RunOperand {
  std::string model;                   // "models/ID"
  std::string capture, head;           // "captures/ID", "heads/ID"
  std::string head_origin_json;        // OperandSource.head_origin_json
  std::string bias_file, bias_tensor;  // blob and tensor
};

// A scoring job as a user states it. Empty or 0: the coordinator's default.
struct RunRequest {
  std::string suite, filter;
  RunOperand reference;
  std::string reference_label;
  struct Candidate {
    std::string label;
    RunOperand source;
  };
  std::vector<Candidate> candidates;
  std::vector<std::string> heads;
  std::string numeric_policy;
  std::string backend;  // of the replay; empty: left to the workers
  double logit_scale = 0, softcap = 0;
  int64_t valid_vocab = 0, score_from = 0, vocab_chunk = 0, limit = 0;
  bool allow_infinite = false;
  int64_t unit_contexts = 0;
  bool fresh = false;
};

// A capture whose files are blobs already.
struct CaptureImport {
  std::string suite;  // "suites/ID"
  std::string suite_token_sha256, filter, cut_point;
  std::string manifest_json;  // IngestHeader.manifest_json
  struct File {
    int64_t index = 0;
    std::string sha256;
    uint64_t bytes = 0;
  };
  std::vector<File> files;  // in suite order
};

struct ClientOptions {
  int64_t call_timeout_ms = 30'000;
  int attempts = 4;                       // of an idempotent call, on transient errors
  int64_t reconnect_give_up_ms = 60'000;  // of a watch without any answer
  ChannelSecurity security;
};

// Asked about ten times a second during long calls; not OK ends the call with that status.
using StopCheck = std::function<absl::Status()>;

// Thread-safe; calls block. Errors are those of the wire and of FromRpc.
class Client {
 public:
  // OpenChannel's errors; nothing is sent yet.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address,
                                                         ClientOptions options = {});
  ~Client();

  // Waits until the coordinator answers. `timeout_ms` without an answer gives its last error.
  absl::Status WaitReady(int64_t timeout_ms, const StopCheck& stop);

  absl::StatusOr<Json> CreateSuite(const std::string& manifest_sha256);
  absl::StatusOr<Json> CreateModel(const std::string& manifest_json);
  absl::StatusOr<Json> GetModel(const std::string& name);
  // The head in a safetensors blob.
  absl::StatusOr<Json> CreateHead(const std::string& file_sha256, const std::string& tensor);
  absl::StatusOr<Json> ImportCapture(const CaptureImport& import);
  // CaptureService.PruneCaptures; `names` empty: all.
  absl::StatusOr<Json> PruneCaptures(const std::vector<std::string>& names, bool apply,
                                     bool sealed);
  absl::StatusOr<Json> CreateRun(const std::string& request_id, const RunRequest& run);
  absl::StatusOr<Json> GetRun(const std::string& name);
  absl::StatusOr<Json> CancelRun(const std::string& name);
  absl::StatusOr<Json> GetReport(const std::string& name);
  absl::StatusOr<Json> GetReceipt(const std::string& name);
  absl::StatusOr<Json> GetPublicKey();
  // ReceiptService.GetLogProof as an assay-log-proof/1 document. `receipt`: "receipts/ID".
  absl::StatusOr<Json> GetLogProof(const std::string& receipt,
                                   const std::vector<uint64_t>& old_sizes);

  // `what`: "suites", "models", "captures", "runs", "reports", "receipts", "workers"; every page,
  // as an array.
  absl::StatusOr<Json> List(std::string_view what);
  absl::StatusOr<Json> ListUnits(const std::string& run);
  // Units for which workers returned different results; `run` empty: of all runs.
  absl::StatusOr<Json> ListDisputes(const std::string& run);

  // Calls `on_event` with every event of the run until it has ended; returns the run as it is then.
  // A broken connection is taken up again after the last event seen; where too many watch already,
  // the run is asked for now and then, without events. WATCH_LOST when nobody has
  // answered for reconnect_give_up_ms (the run itself goes on).
  absl::StatusOr<Json> WatchRun(const std::string& name,
                                const std::function<void(const Json& event)>& on_event,
                                const StopCheck& stop);

  BlobTransfer& blobs() { return blobs_; }
  const std::string& address() const { return address_; }

 private:
  struct Stubs;
  Client(std::string address, std::shared_ptr<grpc::Channel> channel, ClientOptions options);
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Json> Call(const Stub& stub,
                            grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                         Response*),
                            const Request& request);
  // One stream; updates *revision and *ended.
  absl::Status WatchOnce(const std::string& name, uint64_t* revision, bool* heard,
                         const std::function<void(const Json&)>& on_event, const StopCheck& stop);

  const std::string address_;
  const ClientOptions options_;
  const std::unique_ptr<Stubs> stubs_;
  BlobTransfer blobs_;
};

// True for the states in which a run stays: SUCCEEDED, FAILED, CANCELLED.
bool RunHasEnded(const Json& run);

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_CLIENT_H_
