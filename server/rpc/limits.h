// Every limit on what comes from outside over the wire. Beyond it comes a named error, or, where
// gRPC itself refuses, the status that is said here.

#ifndef ASSAY_SERVER_RPC_LIMITS_H_
#define ASSAY_SERVER_RPC_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace assay::rpc {

struct Limits {
  // Refused by gRPC with RESOURCE_EXHAUSTED. Compressed messages are expanded before they are
  // measured, so gzip and deflate are off: UNIMPLEMENTED.
  int message_bytes_max = 4 << 20;
  int metadata_bytes_max = 16 << 10;     // of a call's headers: RESOURCE_EXHAUSTED
  int streams_per_connection_max = 256;  // more calls on one connection wait for an end of others
  int threads_max = 512;          // calls served at a time, each holds one: RESOURCE_EXHAUSTED
  int calls_per_peer_max = 384;   // of one principal at a time: TOO_MANY_CALLS
  int uploads_max = 128;          // Write and Ingest at a time: TOO_MANY_UPLOADS
  int uploads_per_peer_max = 96;  // of one principal: TOO_MANY_UPLOADS
  // An upload whose client sends no message for so long ends: UPLOAD_STALLED. So does one that
  // takes longer than twice that and what its bytes take at the slowest rate: UPLOAD_TOO_SLOW.
  int upload_idle_ms = 2 * 60'000;
  uint64_t upload_slowest_bytes_per_s = 64 << 10;
  int watchers_max = 256;  // WatchRun at a time: TOO_MANY_WATCHERS
  // A connection is asked to end after this long (and up to a tenth more or less), its calls have
  // the grace to do so; clients connect anew by themselves.
  int connection_age_ms = 30 * 60'000;
  int connection_age_grace_ms = 60 * 60'000;
  int connection_idle_ms = 10 * 60'000;  // without a call
  // A connection whose other end says nothing for this long is asked, and closed without an answer:
  // a host that lost power must not keep an upload's blob to itself.
  int keepalive_ms = 20'000;
  int keepalive_timeout_ms = 20'000;
  int ping_interval_min_ms = 10'000;  // clients that ask more often lose the connection
};

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_LIMITS_H_
