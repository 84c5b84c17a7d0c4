#include "client/cli/progress.h"

#include <algorithm>

#include "fmt/format.h"

namespace assay {

std::string HumanBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string HumanDuration(int64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} min", seconds / 3600, seconds % 3600 / 60);
}

ProgressPrinter::ProgressPrinter(std::ostream& out, bool terminal, bool quiet, Clock* clock)
    : out_(out), terminal_(terminal), quiet_(quiet), clock_(clock) {}

ProgressPrinter::~ProgressPrinter() {
  if (drawn_) out_ << "\n" << std::flush;
}

void ProgressPrinter::Note(std::string_view line) {
  if (quiet_) return;
  if (drawn_) out_ << "\r\x1b[K";
  drawn_ = false;
  out_ << line << "\n" << std::flush;
  if (active_ && terminal_) Draw(false, "");
}

void ProgressPrinter::Begin(std::string_view name, std::string_view unit, uint64_t already_done) {
  Start(name, unit, already_done, 0);
}

void ProgressPrinter::Start(std::string_view name, std::string_view unit, uint64_t done,
                            uint64_t total) {
  End();
  active_ = true;
  name_ = name;
  unit_ = unit;
  start_done_ = done_ = done;
  total_ = total;
  start_ms_ = last_draw_ms_ = clock_->MonotonicMillis();
  // A log needs no line of the start for work that was done when first heard of, or resumed.
  if (terminal_ || done == 0 || done < total) Draw(false, "");
}

void ProgressPrinter::Update(std::string_view name, std::string_view unit, uint64_t done,
                             uint64_t total) {
  if (!active_ || name_ != name) Start(name, unit, done, total);
  Update(done, total);
}

void ProgressPrinter::Update(uint64_t done, uint64_t total) {
  if (!active_) return;
  done_ = done;
  total_ = total;
  const int64_t interval = terminal_ ? kRedrawIntervalMs : kPlainIntervalMs;
  if (clock_->MonotonicMillis() - last_draw_ms_ >= interval) Draw(false, "");
}

void ProgressPrinter::End(std::string_view remark) {
  if (!active_) return;
  const bool nothing_new = !terminal_ && remark.empty() && done_ == 0 && total_ == 0 &&
                           clock_->MonotonicMillis() - start_ms_ < 1000;
  if (!nothing_new) Draw(true, remark);
  active_ = false;
}

std::string ProgressPrinter::Line(std::string_view remark, bool final) const {
  const bool bytes = unit_ == "bytes";
  const auto amount = [&](uint64_t n) { return bytes ? HumanBytes(n) : fmt::format("{}", n); };
  std::string line = fmt::format("{:<28}", name_);
  if (total_ > 0) {
    line += fmt::format(" {}/{}", amount(done_), amount(total_));
  } else if (done_ > 0) {
    line += fmt::format(" {}", amount(done_));
  }
  if ((total_ > 0 || done_ > 0) && !bytes && !unit_.empty()) line += fmt::format(" {}", unit_);
  const int64_t elapsed = clock_->MonotonicMillis() - start_ms_;
  const uint64_t fresh = done_ - std::min(done_, start_done_);
  const bool guess = final || estimable_;
  if (!guess && total_ > done_) line += "  estimating";
  if (guess && fresh > 0 && elapsed >= 500) {
    const double rate = static_cast<double>(fresh) * 1000 / static_cast<double>(elapsed);
    line += bytes ? fmt::format("  {}/s", HumanBytes(static_cast<uint64_t>(rate)))
                  : fmt::format("  {:.{}f}/s", rate, rate < 10 ? 2 : 0);
    if (!final && total_ > done_) {
      const double left = static_cast<double>(total_ - done_) / rate;
      line += fmt::format("  {} left", HumanDuration(static_cast<int64_t>(left + 0.5)));
    }
  }
  if (final) line += fmt::format("  {}", HumanDuration(elapsed / 1000));
  if (!remark.empty()) line += fmt::format("  {}", remark);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

void ProgressPrinter::Draw(bool final, std::string_view remark) {
  if (quiet_) return;
  last_draw_ms_ = clock_->MonotonicMillis();
  const std::string line = Line(remark, final);
  if (terminal_) {
    out_ << "\r\x1b[K" << line << (final ? "\n" : "") << std::flush;
    drawn_ = !final;
  } else {
    out_ << line << "\n" << std::flush;
  }
}

}  // namespace assay
