#include "client/cli/run_display.h"

#include <algorithm>

#include "fmt/format.h"

namespace assay {
namespace {

std::string PhaseTitle(const std::string& phase) {
  if (phase == "prepare") return "read models";
  if (phase == "capture") return "capture hidden states";
  if (phase == "repeat") return "repeat sentinel captures";
  if (phase == "replay") return "compare distributions";
  if (phase == "seal") return "seal";
  return phase;
}

// The first units open files, pack weights and share the machine with others that start: two that
// have ended tell how long one takes. Where there are not three, a third of the phase has to do.
bool Estimable(uint64_t done, uint64_t total, int64_t units_ended, int64_t units) {
  return units_ended >= 2 || (units < 3 && done >= total / 3 && done > 0);
}

}  // namespace

RunDisplay::Counts RunDisplay::Phase::Sum() const {
  Counts sum;
  for (const auto& [subject, counts] : subjects) {
    sum.done += counts.done;
    sum.total += counts.total;
    sum.units_done += counts.units_done;
    sum.units_total += counts.units_total;
  }
  return sum;
}

void RunDisplay::OnEvent(const Json& event) {
  const std::string kind = event.value("kind", "");
  if (kind == "PROGRESS" && event["progress"].is_object()) OnProgress(event["progress"]);
  if (kind == "NOTE") printer_->Note("  " + event.value("message", ""));
  if ((kind == "CANDIDATE" || kind == "STATE") && event["run"].is_object()) OnRun(event["run"]);
}

void RunDisplay::OnProgress(const Json& progress) {
  const std::string name = progress.value("phase", "");
  auto phase = std::find_if(phases_.begin(), phases_.end(),
                            [&](const Phase& known) { return known.name == name; });
  if (phase == phases_.end()) phase = phases_.insert(phases_.end(), Phase{name, {}});
  Counts& counts = phase->subjects[progress.value("subject", "")];
  counts.units_done = progress.value("units_done", int64_t{0});
  counts.units_total = progress.value("units_total", int64_t{0});
  // Tokens say most; a phase without them counts contexts, or else units.
  for (const char* unit : {"tokens", "contexts", "units"}) {
    const int64_t total = progress.value(std::string(unit) + "_total", int64_t{0});
    if (total <= 0) continue;
    counts.total = static_cast<uint64_t>(total);
    counts.done = static_cast<uint64_t>(
        std::clamp(progress.value(std::string(unit) + "_done", int64_t{0}), int64_t{0}, total));
    break;
  }
  Show();
}

void RunDisplay::Show() {
  while (shown_ < phases_.size()) {
    Phase& phase = phases_[shown_];
    const Counts sum = phase.Sum();
    const bool tokens = phase.name == "capture" || phase.name == "repeat" || phase.name == "replay";
    if (phase.units_at_start < 0) phase.units_at_start = sum.units_done;
    printer_->set_estimable(Estimable(sum.done, sum.total, sum.units_done - phase.units_at_start,
                                      sum.units_total - phase.units_at_start));
    printer_->Update(PhaseTitle(phase.name), tokens ? "tokens" : "", sum.done, sum.total);
    if (sum.done < sum.total || shown_ + 1 == phases_.size()) return;
    printer_->End();
    ++shown_;
  }
}

void RunDisplay::OnRun(const Json& run) {
  for (const Json& candidate : run["candidates"]) {
    const std::string label = candidate.value("label", ""), state = candidate.value("state", "");
    if (state == "SEALED" && told_.insert(label).second) {
      printer_->Note(
          fmt::format("  {}: {}, receipt {}", label,
                      candidate.value("reused", false) ? "sealed by an earlier run" : "sealed",
                      candidate.value("receipt", "")));
    } else if (state == "FAILED" && told_.insert(label).second && candidate["error"].is_object()) {
      printer_->Note(fmt::format("  {}: failed [{}]: {}", label,
                                 candidate["error"].value("reason", ""),
                                 candidate["error"].value("message", "")));
    }
  }
}

void RunDisplay::End() { printer_->End(); }

}  // namespace assay
