// Rank protocol, version 1: JSON objects, one a line, over an inherited stream socket.
//
//   parent -> rank  {"op":"init","v":1,"rank":0,"size":2,"rendezvous":"/dir","threads":1,
//                    "backend":"auto","capture_library":"/path" | "","collective_timeout_ms":n}
//                   {"op":"run","id":7,"unit":"/path/unit.json","out_dir":"/path"}
//                   {"op":"cancel","id":7}    {"op":"shutdown"}
//   rank -> parent  {"op":"hello","v":1,"build":"..","pid":n}
//                   {"op":"ready","identity":{"replay":{..},"capture":{..}|null}}
//                   {"op":"progress","id":7,"done":3,"total":16}
//                   {"op":"done","id":7,"result":{..},"counters":{"multiply_adds":n,
//                    "weight_bytes":n}}
//                   {"op":"failed","id":7,"code":"INVALID_ARGUMENT","reason":"..","message":"..",
//                    "details":{"operand":"..","context":n,"position":n,"column":n}}   id 0 = init
//
// A line is at most kRankLineBytesMax bytes, its newline included. Bulk data are files; the lines
// carry paths. Unknown members are ignored, an unknown op, kind or version is an error.

#ifndef ASSAY_WORKER_RANK_PROTOCOL_H_
#define ASSAY_WORKER_RANK_PROTOCOL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

inline constexpr int kRankProtocolVersion = 1;
inline constexpr uint64_t kRankLineBytesMax = uint64_t{1} << 20;
inline constexpr int kRankSizeMax = 8;
inline constexpr int kRankThreadsMax = 1024;

struct RankInit {
  int rank = 0;
  int size = 1;
  std::string rendezvous;  // a folder, or an endpoint of the backend
  int threads = 1;
  std::string backend = "auto";
  std::string capture_library;  // "" = this group never captures
  int64_t collective_timeout_ms = 600'000;
};
struct RankRun {
  int64_t id = 0;
  std::string unit;     // path of the unit document
  std::string out_dir;  // exists
};
struct RankCancel {
  int64_t id = 0;
};
struct RankShutdown {};
using RankCommand = std::variant<RankInit, RankRun, RankCancel, RankShutdown>;

struct RankHello {
  std::string build;
  int64_t pid = 0;
};
struct RankReady {
  Json identity;
};
struct RankProgress {
  int64_t id = 0;
  uint64_t done = 0, total = 0;
};
struct RankDone {
  int64_t id = 0;
  Json result;
  uint64_t multiply_adds = 0, weight_bytes = 0;
};
struct RankFailed {
  int64_t id = 0;
  absl::Status status;  // never OK; with details when the rank gave some
};
using RankEvent = std::variant<RankHello, RankReady, RankProgress, RankDone, RankFailed>;

// One line, newline included. PROTOCOL_LINE_TOO_LONG when it would pass the limit.
absl::StatusOr<std::string> EncodeCommand(const RankCommand& command);
absl::StatusOr<std::string> EncodeEvent(const RankEvent& event);

// `line` without its newline. PROTOCOL_INVALID (not JSON, a member missing or of the wrong type or
// range), PROTOCOL_VERSION, PROTOCOL_UNKNOWN_OP.
absl::StatusOr<RankCommand> DecodeCommand(std::string_view line);
absl::StatusOr<RankEvent> DecodeEvent(std::string_view line);

// Cuts a byte stream into lines.
class LineBuffer {
 public:
  // Appends bytes as they came. PROTOCOL_LINE_TOO_LONG once an unfinished line passes the limit;
  // the buffer is of no use afterwards.
  absl::Status Append(std::string_view bytes);
  // Takes the next whole line, newline removed. False when there is none.
  bool Next(std::string* line);

 private:
  std::string buffer_;
  size_t start_ = 0;
};

// Machine-readable details that travel with a status ({"operand","context","position","column"} of
// a refused row). Annotate() drops them; null when there are none.
absl::Status WithDetails(const absl::Status& status, const Json& details);
Json DetailsOf(const absl::Status& status);

// "INVALID_ARGUMENT" and back; an unknown name gives kUnknown.
std::string StatusCodeName(absl::StatusCode code);
absl::StatusCode StatusCodeOf(std::string_view name);

}  // namespace assay

#endif  // ASSAY_WORKER_RANK_PROTOCOL_H_
