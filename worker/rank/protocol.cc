#include "worker/rank/protocol.h"

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr char kDetailsUrl[] = "assay/details";
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

using absl::StatusCode;
constexpr std::array<std::pair<StatusCode, const char*>, 16> kCodeNames = {{
    {StatusCode::kCancelled, "CANCELLED"},
    {StatusCode::kUnknown, "UNKNOWN"},
    {StatusCode::kInvalidArgument, "INVALID_ARGUMENT"},
    {StatusCode::kDeadlineExceeded, "DEADLINE_EXCEEDED"},
    {StatusCode::kNotFound, "NOT_FOUND"},
    {StatusCode::kAlreadyExists, "ALREADY_EXISTS"},
    {StatusCode::kPermissionDenied, "PERMISSION_DENIED"},
    {StatusCode::kResourceExhausted, "RESOURCE_EXHAUSTED"},
    {StatusCode::kFailedPrecondition, "FAILED_PRECONDITION"},
    {StatusCode::kAborted, "ABORTED"},
    {StatusCode::kOutOfRange, "OUT_OF_RANGE"},
    {StatusCode::kUnimplemented, "UNIMPLEMENTED"},
    {StatusCode::kInternal, "INTERNAL"},
    {StatusCode::kUnavailable, "UNAVAILABLE"},
    {StatusCode::kDataLoss, "DATA_LOSS"},
    {StatusCode::kUnauthenticated, "UNAUTHENTICATED"},
}};

absl::StatusOr<std::string> Line(const Json& object) {
  std::string text;
  try {
    // Paths may hold any byte; what is not UTF-8 is replaced rather than refused, and then fails by
    // its name when it is opened.
    text = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  } catch (const std::exception& e) {
    return InternalError("PROTOCOL_INVALID", std::string("rank protocol: ") + e.what());
  }
  text += '\n';
  if (text.size() > kRankLineBytesMax) {
    return InvalidError("PROTOCOL_LINE_TOO_LONG",
                        "rank protocol: a line of " + std::to_string(text.size()) +
                            " bytes passes the limit of " + std::to_string(kRankLineBytesMax) +
                            "; cut the unit into smaller ones");
  }
  return text;
}

// Every error of the decoder has the reason PROTOCOL_INVALID, whatever found it.
absl::Status Invalid(const absl::Status& status) {
  return InvalidError("PROTOCOL_INVALID", MessageOf(status));
}

struct Decoded {
  Json json;
  std::string op;
};

absl::StatusOr<Decoded> Parse(std::string_view line) {
  if (line.size() >= kRankLineBytesMax) {
    return InvalidError("PROTOCOL_LINE_TOO_LONG",
                        "rank protocol: a line of " + std::to_string(line.size()) +
                            " bytes passes the limit of " + std::to_string(kRankLineBytesMax));
  }
  absl::StatusOr<Json> json = ParseJson(line, "rank protocol");
  if (!json.ok()) return Invalid(json.status());
  const JsonFields fields(*json, "rank protocol");
  if (absl::Status status = fields.CheckObject(); !status.ok()) return Invalid(status);
  absl::StatusOr<std::string> op = fields.String("op");
  if (!op.ok()) return Invalid(op.status());
  return Decoded{std::move(*json), std::move(*op)};
}

absl::Status UnknownOp(const std::string& op, std::string_view known) {
  return InvalidError("PROTOCOL_UNKNOWN_OP", "rank protocol: unknown op \"" + op +
                                                 "\"; known are " + std::string(known) +
                                                 ". The two programs are of different builds");
}

absl::Status CheckVersion(const JsonFields& fields) {
  ASSAY_ASSIGN_OR_RETURN(const int64_t version, fields.Int("v", 0, kInt64Max));
  if (version != kRankProtocolVersion) {
    return PreconditionError("PROTOCOL_VERSION", "rank protocol: version " +
                                                     std::to_string(version) +
                                                     " was offered, this program speaks version " +
                                                     std::to_string(kRankProtocolVersion) +
                                                     "; install worker programs of one build");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> NonEmpty(const JsonFields& fields, std::string_view key) {
  ASSAY_ASSIGN_OR_RETURN(std::string value, fields.String(key));
  if (value.empty()) return fields.Invalid(key, "must not be empty");
  return value;
}

absl::StatusOr<RankCommand> DecodeInit(const JsonFields& fields) {
  ASSAY_RETURN_IF_ERROR(CheckVersion(fields));
  RankInit init;
  ASSAY_ASSIGN_OR_RETURN(const int64_t size, fields.Int("size", 1, kRankSizeMax));
  ASSAY_ASSIGN_OR_RETURN(const int64_t rank, fields.Int("rank", 0, size - 1));
  ASSAY_ASSIGN_OR_RETURN(const int64_t threads, fields.Int("threads", 1, kRankThreadsMax));
  init.size = static_cast<int>(size);
  init.rank = static_cast<int>(rank);
  init.threads = static_cast<int>(threads);
  ASSAY_ASSIGN_OR_RETURN(init.rendezvous, NonEmpty(fields, "rendezvous"));
  ASSAY_ASSIGN_OR_RETURN(init.backend, NonEmpty(fields, "backend"));
  ASSAY_ASSIGN_OR_RETURN(init.capture_library, fields.String("capture_library"));
  ASSAY_ASSIGN_OR_RETURN(init.collective_timeout_ms,
                         fields.Int("collective_timeout_ms", 1, kInt64Max));
  return RankCommand(std::move(init));
}

absl::StatusOr<RankCommand> DecodeRun(const JsonFields& fields) {
  RankRun run;
  ASSAY_ASSIGN_OR_RETURN(run.id, fields.Int("id", 1, kInt64Max));
  ASSAY_ASSIGN_OR_RETURN(run.unit, NonEmpty(fields, "unit"));
  ASSAY_ASSIGN_OR_RETURN(run.out_dir, NonEmpty(fields, "out_dir"));
  return RankCommand(std::move(run));
}

absl::StatusOr<RankEvent> DecodeDone(const JsonFields& fields) {
  RankDone done;
  ASSAY_ASSIGN_OR_RETURN(done.id, fields.Int("id", 1, kInt64Max));
  ASSAY_ASSIGN_OR_RETURN(const Json* result, fields.Object("result"));
  done.result = *result;
  ASSAY_ASSIGN_OR_RETURN(const Json* counters, fields.Object("counters"));
  const JsonFields count(*counters, "rank protocol: counters");
  ASSAY_ASSIGN_OR_RETURN(const int64_t multiply_adds, count.Int("multiply_adds", 0, kInt64Max));
  ASSAY_ASSIGN_OR_RETURN(const int64_t weight_bytes, count.Int("weight_bytes", 0, kInt64Max));
  done.multiply_adds = static_cast<uint64_t>(multiply_adds);
  done.weight_bytes = static_cast<uint64_t>(weight_bytes);
  return RankEvent(std::move(done));
}

absl::StatusOr<RankEvent> DecodeFailed(const JsonFields& fields, const Json& json) {
  RankFailed failed;
  ASSAY_ASSIGN_OR_RETURN(failed.id, fields.Int("id", 0, kInt64Max));
  ASSAY_ASSIGN_OR_RETURN(const std::string code, fields.String("code"));
  ASSAY_ASSIGN_OR_RETURN(const std::string reason, NonEmpty(fields, "reason"));
  ASSAY_ASSIGN_OR_RETURN(const std::string message, fields.String("message"));
  failed.status = Error(StatusCodeOf(code), reason, message);
  if (fields.Has("details")) {
    ASSAY_RETURN_IF_ERROR(fields.Object("details").status());
    failed.status = WithDetails(failed.status, json.at("details"));
  }
  return RankEvent(std::move(failed));
}

absl::StatusOr<RankEvent> DecodeProgress(const JsonFields& fields) {
  RankProgress progress;
  ASSAY_ASSIGN_OR_RETURN(progress.id, fields.Int("id", 1, kInt64Max));
  ASSAY_ASSIGN_OR_RETURN(const int64_t total, fields.Int("total", 0, kInt64Max));
  ASSAY_ASSIGN_OR_RETURN(const int64_t done, fields.Int("done", 0, total));
  progress.done = static_cast<uint64_t>(done);
  progress.total = static_cast<uint64_t>(total);
  return RankEvent(progress);
}

absl::StatusOr<RankCommand> DecodeCommandOp(const Decoded& decoded) {
  const JsonFields fields(decoded.json, "rank protocol: op " + decoded.op);
  if (decoded.op == "init") return DecodeInit(fields);
  if (decoded.op == "run") return DecodeRun(fields);
  if (decoded.op == "cancel") {
    ASSAY_ASSIGN_OR_RETURN(const int64_t id, fields.Int("id", 1, kInt64Max));
    return RankCommand(RankCancel{id});
  }
  if (decoded.op == "shutdown") return RankCommand(RankShutdown{});
  return UnknownOp(decoded.op, "init, run, cancel, shutdown");
}

absl::StatusOr<RankEvent> DecodeEventOp(const Decoded& decoded) {
  const JsonFields fields(decoded.json, "rank protocol: op " + decoded.op);
  if (decoded.op == "hello") {
    ASSAY_RETURN_IF_ERROR(CheckVersion(fields));
    RankHello hello;
    ASSAY_ASSIGN_OR_RETURN(hello.build, fields.String("build"));
    ASSAY_ASSIGN_OR_RETURN(hello.pid, fields.Int("pid", 1, kInt64Max));
    return RankEvent(std::move(hello));
  }
  if (decoded.op == "ready") {
    ASSAY_ASSIGN_OR_RETURN(const Json* identity, fields.Object("identity"));
    return RankEvent(RankReady{*identity});
  }
  if (decoded.op == "progress") return DecodeProgress(fields);
  if (decoded.op == "done") return DecodeDone(fields);
  if (decoded.op == "failed") return DecodeFailed(fields, decoded.json);
  return UnknownOp(decoded.op, "hello, ready, progress, done, failed");
}

// Field errors become PROTOCOL_INVALID; errors of the protocol itself keep their reason.
absl::Status AsProtocolError(const absl::Status& status) {
  return ReasonOf(status).rfind("PROTOCOL_", 0) == 0 ? status : Invalid(status);
}

struct CommandToJson {
  Json operator()(const RankInit& c) const {
    return {{"op", "init"},
            {"v", kRankProtocolVersion},
            {"rank", c.rank},
            {"size", c.size},
            {"rendezvous", c.rendezvous},
            {"threads", c.threads},
            {"backend", c.backend},
            {"capture_library", c.capture_library},
            {"collective_timeout_ms", c.collective_timeout_ms}};
  }
  Json operator()(const RankRun& c) const {
    return {{"op", "run"}, {"id", c.id}, {"unit", c.unit}, {"out_dir", c.out_dir}};
  }
  Json operator()(const RankCancel& c) const { return {{"op", "cancel"}, {"id", c.id}}; }
  Json operator()(const RankShutdown&) const { return Json::object({{"op", "shutdown"}}); }
};

struct EventToJson {
  Json operator()(const RankHello& e) const {
    return {{"op", "hello"}, {"v", kRankProtocolVersion}, {"build", e.build}, {"pid", e.pid}};
  }
  Json operator()(const RankReady& e) const { return {{"op", "ready"}, {"identity", e.identity}}; }
  Json operator()(const RankProgress& e) const {
    return {{"op", "progress"}, {"id", e.id}, {"done", e.done}, {"total", e.total}};
  }
  Json operator()(const RankDone& e) const {
    return {{"op", "done"},
            {"id", e.id},
            {"result", e.result},
            {"counters", {{"multiply_adds", e.multiply_adds}, {"weight_bytes", e.weight_bytes}}}};
  }
  Json operator()(const RankFailed& e) const {
    Json json = {{"op", "failed"},
                 {"id", e.id},
                 {"code", StatusCodeName(e.status.code())},
                 {"reason", ReasonOf(e.status)},
                 {"message", MessageOf(e.status)}};
    if (Json details = DetailsOf(e.status); !details.is_null()) json["details"] = details;
    return json;
  }
};

}  // namespace

absl::StatusOr<std::string> EncodeCommand(const RankCommand& command) {
  return Line(std::visit(CommandToJson(), command));
}

absl::StatusOr<std::string> EncodeEvent(const RankEvent& event) {
  return Line(std::visit(EventToJson(), event));
}

absl::StatusOr<RankCommand> DecodeCommand(std::string_view line) {
  ASSAY_ASSIGN_OR_RETURN(const Decoded decoded, Parse(line));
  absl::StatusOr<RankCommand> command = DecodeCommandOp(decoded);
  if (!command.ok()) return AsProtocolError(command.status());
  return command;
}

absl::StatusOr<RankEvent> DecodeEvent(std::string_view line) {
  ASSAY_ASSIGN_OR_RETURN(const Decoded decoded, Parse(line));
  absl::StatusOr<RankEvent> event = DecodeEventOp(decoded);
  if (!event.ok()) return AsProtocolError(event.status());
  return event;
}

absl::Status LineBuffer::Append(std::string_view bytes) {
  buffer_.append(bytes);
  const size_t last = buffer_.rfind('\n');
  const size_t unfinished = last == std::string::npos ? start_ : std::max(start_, last + 1);
  if (buffer_.size() - unfinished >= kRankLineBytesMax) {
    return InvalidError("PROTOCOL_LINE_TOO_LONG",
                        "rank protocol: an unfinished line passes the limit of " +
                            std::to_string(kRankLineBytesMax) + " bytes");
  }
  return absl::OkStatus();
}

bool LineBuffer::Next(std::string* line) {
  const size_t end = buffer_.find('\n', start_);
  if (end == std::string::npos) {
    buffer_.erase(0, start_);
    start_ = 0;
    return false;
  }
  line->assign(buffer_, start_, end - start_);
  start_ = end + 1;
  return true;
}

absl::Status WithDetails(const absl::Status& status, const Json& details) {
  absl::Status out = status;
  if (!out.ok() && !details.is_null()) {
    out.SetPayload(kDetailsUrl,
                   absl::Cord(details.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  return out;
}

Json DetailsOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kDetailsUrl);
  if (!payload) return nullptr;
  absl::StatusOr<Json> json = ParseJson(std::string(*payload), "details");
  return json.ok() ? *json : Json(nullptr);
}

std::string StatusCodeName(absl::StatusCode code) {
  for (const auto& [known, name] : kCodeNames) {
    if (known == code) return name;
  }
  return "UNKNOWN";
}

absl::StatusCode StatusCodeOf(std::string_view name) {
  for (const auto& [code, known] : kCodeNames) {
    if (name == known) return code;
  }
  return StatusCode::kUnknown;
}

}  // namespace assay
