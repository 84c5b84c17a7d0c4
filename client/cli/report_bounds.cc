#include "client/cli/report_bounds.h"

#include <cmath>
#include <cstdlib>
#include <optional>

#include "client/cli/unknown_words.h"
#include "fmt/format.h"
#include "storage/base/status.h"

namespace assay {
namespace {

absl::Status BadUsage(const std::string& sentence) { return InvalidError("BAD_USAGE", sentence); }

bool IsMean(const Json& json) { return json.contains("value") && json.contains("infinite_count"); }
bool IsFraction(const Json& json) { return json.contains("fraction") && json.contains("hits"); }

// Member `rest` of `json`, keys divided by dots; a key may hold dots itself (names of strata).
// `around` is what holds `json`: an interval stands beside its mean.
const Json* Member(const Json& json, std::string_view rest, const Json* around) {
  if (rest.empty()) return &json;
  if (rest == "ci95_low" || rest == "ci95_high") {
    for (const Json* place : {&json, around}) {
      if (place == nullptr || !place->is_object() || !place->contains("context_bootstrap"))
        continue;
      return &place->at("context_bootstrap").at(std::string(rest));
    }
  }
  if (!json.is_object()) return nullptr;
  for (const auto& [key, value] : json.items()) {
    if (rest.substr(0, key.size()) != key) continue;
    if (rest.size() != key.size() && rest[key.size()] != '.') continue;
    const size_t used = std::min(rest.size(), key.size() + 1);
    if (const Json* found = Member(value, rest.substr(used), &json)) return found;
  }
  return nullptr;
}

// Every path below `json` that names one number, as it may be written.
void ListPaths(const Json& json, const std::string& prefix, std::vector<std::string>* out) {
  if (!json.is_object()) {
    if (json.is_number() && !prefix.empty()) out->push_back(prefix);
    return;
  }
  if (IsMean(json) || IsFraction(json)) {
    out->push_back(prefix);
    return;
  }
  if (json.contains("context_bootstrap") && json.contains("mean")) {
    for (const char* end : {".mean.ci95_low", ".mean.ci95_high"}) out->push_back(prefix + end);
  }
  for (const auto& [key, value] : json.items()) {
    ListPaths(value, prefix.empty() ? key : prefix + "." + key, out);
  }
}

// What a published report calls a figure: over the same positions and contexts, in the same unit.
// Its mean Jensen-Shannon divergence is in bits, so that one goes by its own name alone.
struct PublishedName {
  const char *path, *member;
};
constexpr PublishedName kPublishedNames[] = {
    {"kl_ref_cand.mean", "token_mean_kld"},
    {"kl_ref_cand.mean.ci95_low", "context_bootstrap.ci95_low"},
    {"kl_ref_cand.mean.ci95_high", "context_bootstrap.ci95_high"},
    {"kl_ref_cand.p50", "token_median_kld"},
    {"kl_ref_cand.p95", "p95_kld"},
    {"kl_ref_cand.p99", "p99_kld"},
    {"kl_ref_cand.p999", "p999_kld"},
    {"kl_ref_cand.max", "max_kld"},
    {"kl_ref_cand.min", "kld_tail.min_kld"},
    {"agreement.same_top1", "top1_agreement"},
    {"coverage.positions", "scored_positions"},
    {"coverage.contexts", "contexts"},
};
constexpr std::string_view kStrataPrefix = "strata.";
constexpr std::string_view kStratumMean = ".mean_kl_ref_cand";

// The member of a published report that `path` means, as it may be written there.
std::string PublishedMember(std::string_view path) {
  for (const PublishedName& name : kPublishedNames) {
    if (path == name.path) return name.member;
  }
  if (path.starts_with(kStrataPrefix) && path.ends_with(kStratumMean)) {
    path.remove_suffix(kStratumMean.size());
    return std::string(path) + ".mean_kld";
  }
  return std::string(path);
}

std::string Suggestion(const std::vector<const Json*>& places, std::string_view path) {
  std::vector<std::string> known;
  for (const Json* place : places) ListPaths(*place, "", &known);
  const std::string nearest = NearestWord(path, known);
  if (!nearest.empty()) return "; did you mean " + nearest + "?";
  return "; for example kl_ref_cand.mean, kl_ref_cand.mean.ci95_high, kl_ref_cand.p999, "
         "agreement.same_top1, delta_p.rms, ln_perplexity_ratio.mean (docs/report.md has all)";
}

}  // namespace

absl::StatusOr<ReportBound> ParseReportBound(std::string_view text, bool is_max) {
  const char* option = is_max ? "--max" : "--min";
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) {
    return BadUsage(
        fmt::format("{} {}: give PATH=NUMBER, such as kl_ref_cand.mean=0.02", option, text));
  }
  ReportBound bound{std::string(text.substr(0, equals)), 0, is_max};
  const std::string number(text.substr(equals + 1));
  char* end = nullptr;
  bound.value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !std::isfinite(bound.value)) {
    return BadUsage(fmt::format("{} {}: \"{}\" is no finite number", option, bound.path, number));
  }
  return bound;
}

absl::StatusOr<ReportFigure> FindFigure(const Json& report, const Json& summary_head,
                                        const std::string& head, std::string_view path) {
  const Json& entry = report.at("heads").at(head);
  const std::vector<const Json*> places = {&entry.at("statistics"), &summary_head, &entry, &report};
  const Json* found = nullptr;
  for (const Json* place : places) {
    if (found == nullptr) found = Member(*place, path, nullptr);
  }
  if (found == nullptr) {
    return BadUsage(fmt::format("the report has no figure {}{}", path, Suggestion(places, path)));
  }
  if (found->is_object() && IsMean(*found)) {
    const uint64_t infinite = found->at("infinite_count").get<uint64_t>();
    return ReportFigure{found->at("value"),
                        infinite == 0 ? "" : fmt::format("infinite at {} positions", infinite)};
  }
  if (found->is_object() && IsFraction(*found)) found = &found->at("fraction");
  if (found->is_number()) return ReportFigure{*found, ""};
  if (found->is_null()) return ReportFigure{nullptr, "the report gives no number there"};
  return BadUsage(fmt::format("{} is no single number{}", path, Suggestion(places, path)));
}

absl::StatusOr<ReportFigure> FindPublishedFigure(const Json& report, std::string_view path) {
  const Json* found = Member(report, PublishedMember(path), nullptr);
  if (found != nullptr && found->is_number()) return ReportFigure{*found, ""};
  if (found != nullptr && found->is_null()) {
    return ReportFigure{nullptr, "the report gives no number there"};
  }
  std::vector<std::string> known;
  ListPaths(report, "", &known);
  for (const PublishedName& name : kPublishedNames) {
    if (Member(report, name.member, nullptr) != nullptr) known.emplace_back(name.path);
  }
  const std::string nearest = NearestWord(path, known);
  return BadUsage(fmt::format("a published report has no figure {}; {}", path,
                              nearest.empty()
                                  ? "for example kl_ref_cand.mean, kl_ref_cand.mean.ci95_high, "
                                    "kl_ref_cand.p999, agreement.same_top1 (docs/report.md)"
                                  : "did you mean " + nearest + "?"));
}

}  // namespace assay
