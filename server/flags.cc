#include "server/flags.h"

#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>

#include "storage/base/build_info.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

absl::StatusOr<int64_t> Number(const std::string& name, const std::string& text, int64_t min,
                               int64_t max) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return InvalidError("FLAG_INVALID", "--" + name + " wants a whole number from " +
                                            std::to_string(min) + " to " + std::to_string(max) +
                                            ", not \"" + text + "\"");
  }
  return value;
}

using Setter = std::function<absl::Status(const std::string&)>;

template <class T>
Setter Int(const std::string& name, T* out, int64_t min, int64_t max) {
  return [=](const std::string& text) -> absl::Status {
    ASSAY_ASSIGN_OR_RETURN(const int64_t value, Number(name, text, min, max));
    *out = static_cast<T>(value);
    return absl::OkStatus();
  };
}

Setter Text(std::string* out) {
  return [out](const std::string& text) {
    *out = text;
    return absl::OkStatus();
  };
}

std::map<std::string, Setter> Setters(Flags* f) {
  constexpr int64_t kDay = 86'400'000;
  constexpr int64_t kBytes = int64_t{1} << 50;
  CoreOptions& core = f->engine.core;
  return {
      {"data", Text(&f->engine.data_dir)},
      {"anchor", Text(&f->engine.anchor_path)},
      {"log-origin", Text(&f->engine.log_origin)},
      {"listen",
       [f](const std::string& text) {
         f->server.listen.push_back(text);
         return absl::OkStatus();
       }},
      {"metrics", Text(&f->metrics)},
      {"ready-file", Text(&f->ready_file)},
      {"tls-cert", Text(&f->server.tls.files.certificate)},
      {"tls-key", Text(&f->server.tls.files.key)},
      {"tls-client-ca", Text(&f->server.tls.files.client_ca)},
      {"tls-reload-s", Int("tls-reload-s", &f->server.tls.reload_s, 1, 86'400)},
      {"tokens", Text(&f->server.tokens)},
      {"audit", Text(&f->server.audit)},
      {"signer-command", Text(&f->engine.signer.program)},
      {"signer-key", Text(&f->engine.signer.public_key)},
      {"signer-timeout-ms", Int("signer-timeout-ms", &f->engine.signer.timeout_ms, 100, kDay)},
      {"max-calls-per-peer",
       Int("max-calls-per-peer", &f->server.limits.calls_per_peer_max, 1, 1 << 20)},
      {"max-uploads", Int("max-uploads", &f->server.limits.uploads_max, 1, 1 << 20)},
      {"max-uploads-per-peer",
       Int("max-uploads-per-peer", &f->server.limits.uploads_per_peer_max, 1, 1 << 20)},
      {"max-connection-age-ms",
       Int("max-connection-age-ms", &f->server.limits.connection_age_ms, 1000, kDay)},
      {"parent-fd", Int("parent-fd", &f->parent_fd, 0, 1 << 20)},
      {"drain-ms", Int("drain-ms", &f->drain_ms, 0, kDay)},
      {"lease-ms", Int("lease-ms", &core.lease_ms, 200, kDay)},
      {"busy-sync-ms", Int("busy-sync-ms", &core.busy_sync_ms, 50, kDay)},
      {"tick-ms", Int("tick-ms", &f->engine.tick_ms, 10, 60'000)},
      {"unit-contexts", Int("unit-contexts", &core.unit_contexts, 1, core.unit_contexts_max)},
      {"unit-failures", Int("unit-failures", &core.failures_max, 1, 100)},
      {"unit-losses", Int("unit-losses", &core.losses_max, 1, 1000)},
      {"recheck-per-mille", Int("recheck-per-mille", &core.recheck_per_mille, 0, 1000)},
      {"model-wait-ms", Int("model-wait-ms", &core.model_wait_ms, 0, kDay)},
      {"worker-wait-ms", Int("worker-wait-ms", &core.worker_wait_ms, 0, 30 * kDay)},
      {"max-runs", Int("max-runs", &core.active_runs_max, 1, 1 << 24)},
      {"max-runs-per-principal",
       Int("max-runs-per-principal", &core.runs_per_principal_max, 0, 1 << 24)},
      {"min-free-bytes", Int("min-free-bytes", &f->engine.min_free_bytes, 0, kBytes)},
      {"ballast-bytes", Int("ballast-bytes", &f->engine.ballast_bytes, 0, kBytes)},
      {"max-store-bytes", Int("max-store-bytes", &f->engine.max_store_bytes, 0, kBytes)},
      {"max-blob-bytes", Int("max-blob-bytes", &f->engine.max_blob_bytes, 1, kBytes)},
  };
}

}  // namespace

std::string DefaultDataDir() {
  if (const char* data = std::getenv("ASSAY_DATA"); data != nullptr && *data != '\0') return data;
  if (const char* xdg = std::getenv("XDG_DATA_HOME"); xdg != nullptr && *xdg != '\0')
    return std::string(xdg) + "/assay";
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "." : home) + "/.local/share/assay";
}

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  Flags flags;
  flags.engine.core.build_id = BuildId();
  const auto setters = Setters(&flags);
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--help" || arg == "-h") {
      flags.help = true;
      continue;
    }
    if (arg == "--version") {
      flags.version = true;
      continue;
    }
    const size_t equals = arg.find('=');
    const std::string name = arg.rfind("--", 0) == 0
                                 ? arg.substr(2, equals == std::string::npos ? equals : equals - 2)
                                 : "";
    const auto setter = setters.find(name);
    if (setter == setters.end())
      return InvalidError("FLAG_INVALID", arg + " is not a flag of assayd; see --help");
    if (equals == std::string::npos && i + 1 >= argc)
      return InvalidError("FLAG_INVALID", arg + " wants a value");
    ASSAY_RETURN_IF_ERROR(setter->second(equals == std::string::npos ? std::string(argv[++i])
                                                                     : arg.substr(equals + 1)));
  }
  if (flags.engine.data_dir.empty()) flags.engine.data_dir = DefaultDataDir();
  if (flags.server.listen.empty()) flags.server.listen.push_back("127.0.0.1:7070");
  // Tokens that were made count without being asked for.
  const std::string tokens = JoinPath(flags.engine.data_dir, kTokensFile);
  if (flags.server.tokens.empty() && FileExists(tokens)) flags.server.tokens = tokens;
  if (flags.server.audit.empty()) flags.server.audit = JoinPath(flags.engine.data_dir, kAuditFile);
  return flags;
}

std::string HelpText() {
  return R"(assayd - the coordinator of Assay

usage: assayd [--data DIR] [--listen ADDRESS ...] [flags]
       assayd token create|list|revoke ...   who may call (assayd token --help)
       assayd key list|rotate ...            the keys of the log (assayd key --help)
       assayd fsck | backup | gc ...    look after a data folder; see assayd fsck --help

  --data DIR             data folder ($ASSAY_DATA, else the XDG data folder)
  --listen ADDRESS       unix:/path or HOST:PORT, may be repeated (127.0.0.1:7070)
  --tls-cert FILE        certificate (PEM) of the TCP listeners; with the next two: mutual TLS, needed
                         beyond loopback. Replaced files are taken up without a restart
  --tls-key FILE         its private key (PEM, mode 0600)
  --tls-client-ca FILE   CAs (PEM) whose clients may connect
  --tls-reload-s N       how often these files are looked at (10)
  --tokens FILE          who may call and as what (DIR/tokens.json when it exists); needed beyond loopback
  --audit FILE           who did what, JSON lines (DIR/audit.jsonl)
  --signer-command PROG  a program that signs instead of DIR/signing.key: bytes on standard input, the 64
                         bytes of the signature on standard output
  --signer-key FILE      the public key (PEM) that it signs with
  --signer-timeout-ms N  time for one signature (30000)
  --metrics HOST:PORT    serve Prometheus metrics there
  --anchor FILE          anchor file, best on another file system (DIR/anchor)
  --log-origin NAME      first line of the transparency log's checkpoints (assay.local/log)
  --lease-ms N           how long a worker may be silent (30000)
  --busy-sync-ms N       how often a busy worker reports (2000)
  --unit-contexts N      contexts per unit when a run does not say (16)
  --unit-failures N      failures after which a unit is given up (3)
  --unit-losses N        workers lost while they did a unit after which it is given up (10)
  --recheck-per-mille N  of 1000 captures and replays, how many another worker does again, bytes compared (0)
  --model-wait-ms N      wait for a worker that has a model (30000)
  --worker-wait-ms N     wait for a worker that may do the work (600000)
  --max-runs N           runs that have not ended beyond which new ones are refused (10000)
  --max-runs-per-principal N  of those, how many one token may have (0: all)
  --min-free-bytes N     refuse new work below this much free space (536870912)
  --ballast-bytes N      space kept in reserve in DIR/ballast (67108864)
  --max-store-bytes N    bytes of all blobs together beyond which uploads are refused (0: no limit)
  --max-blob-bytes N     largest blob (68719476736)
  --max-calls-per-peer N    calls of one token, or address, at a time (384)
  --max-uploads N           uploads at a time (128)
  --max-uploads-per-peer N  of one token, or address (96)
  --max-connection-age-ms N connections are asked to end after this long (1800000)
  --tick-ms N            how often leases and waits are looked at (500)
  --drain-ms N           time for calls to end at SIGTERM (3000)
  --ready-file FILE      write the bound addresses there once serving
  --parent-fd N          exit when file descriptor N reaches end of file
  --help, --version

examples:
  assayd --data /srv/assay --listen 127.0.0.1:7070 --metrics 127.0.0.1:9464
  assayd --data /srv/assay --listen unix:/run/assay/assayd.sock
  assayd --data /srv/assay --listen 0.0.0.0:7070 --tls-cert /etc/assay/tls/cert.pem \
      --tls-key /etc/assay/tls/key.pem --tls-client-ca /etc/assay/tls/ca.pem

exit codes: 0 stopped as asked, 2 bad flags, 20 data folder damaged, 21 made by a newer build, 22 in use by another
process, 1 anything else
)";
}

}  // namespace assay
