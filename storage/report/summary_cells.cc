#include "storage/report/summary_cells.h"

#include <cstdio>

namespace assay {

std::string NumberCell(const Json& value, const char* format) {
  if (!value.is_number()) return "-";
  char text[64];
  std::snprintf(text, sizeof text, format, value.get<double>());
  return text;
}

std::string MeanCell(const Json& mean, const char* format) {
  if (!mean.at("value").is_null()) return NumberCell(mean.at("value"), format);
  return "infinite at " + std::to_string(mean.at("infinite_count").get<uint64_t>());
}

std::string PercentCell(const Json& value, const char* format) {
  return value.is_number() ? NumberCell(Json(100.0 * value.get<double>()), format) : "-";
}

std::string FractionCell(const Json& fraction) { return PercentCell(fraction.at("fraction")); }

std::string IntervalCell(const Json& bootstrap, const char* format) {
  if (!bootstrap.at("refused").is_null()) {
    return "none (" + std::to_string(bootstrap.at("clusters").get<uint64_t>()) + " clusters)";
  }
  std::string out = "[";
  out += NumberCell(bootstrap.at("ci95_low"), format) + ", " +
         NumberCell(bootstrap.at("ci95_high"), format);
  out += "]";
  return out;
}

std::string BytesCell(const Json& bytes) {
  if (!bytes.is_number()) return "-";
  const double value = bytes.get<double>();
  if (value >= 1e9) return NumberCell(Json(value / 1e9), "%.3f GB");
  if (value >= 1e6) return NumberCell(Json(value / 1e6), "%.1f MB");
  return NumberCell(bytes, "%.0f B");
}

std::string DistinguishableCell(const Json& comparison) {
  const Json& alone = comparison.at("distinguishable");
  if (alone.is_null()) return "-";
  if (!alone.get<bool>()) return "no";
  const Json& together = comparison.at("simultaneous");
  if (together.at("distinguishable") == Json(true)) return "yes";
  return "yes (not among " + std::to_string(together.at("comparisons").get<uint64_t>()) + ")";
}

}  // namespace assay
