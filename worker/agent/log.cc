#include "worker/agent/log.h"

#include <cstdio>
#include <mutex>

#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace assay {

void LogLine(std::string_view level, std::string_view message, const Json& fields) {
  static std::mutex mutex;
  Json line;
  line["time"] = FormatUtc(Clock::Real()->UnixMillis());
  line["level"] = std::string(level);
  line["program"] = "assay-worker";
  line["msg"] = std::string(message);
  if (fields.is_object()) {
    for (const auto& [key, value] : fields.items()) line[key] = value;
  }
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::lock_guard lock(mutex);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

Json LogFields(const absl::Status& status) {
  Json fields;
  fields["code"] = absl::StatusCodeToString(status.code());
  fields["reason"] = ReasonOf(status);
  fields["error"] = MessageOf(status);
  return fields;
}

}  // namespace assay
