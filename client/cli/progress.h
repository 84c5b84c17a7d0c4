// One progress line per phase, on a terminal or in a log.

#ifndef ASSAY_CLIENT_CLI_PROGRESS_H_
#define ASSAY_CLIENT_CLI_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "storage/base/clock.h"

namespace assay {

// Prints phases one after the other: "capture reference   12/56 contexts  3.1/s  14 s left". On a
// terminal the line is redrawn in place; otherwise a plain line is written when a phase starts, at
// most every kPlainIntervalMs, and when it ends, unless that says nothing more than the line of its
// start. Not thread-safe: callers with threads serialize.
class ProgressPrinter {
 public:
  static constexpr int64_t kRedrawIntervalMs = 100;
  static constexpr int64_t kPlainIntervalMs = 15000;

  // `out` (normally std::cerr) and `clock` outlive the printer. `quiet` prints nothing.
  ProgressPrinter(std::ostream& out, bool terminal, bool quiet, Clock* clock = Clock::Real());
  ~ProgressPrinter();  // leaves the cursor at the start of a line

  // A whole line, e.g. what is being run on what; a phase in progress is redrawn below it.
  void Note(std::string_view line);

  // Ends the current phase, if any, and begins `name`; `unit` is a plural noun ("contexts") or
  // "bytes", which are printed as KiB, MiB or GiB. The rate counts only what is done from now on,
  // so `already_done` (resumed work) does not flatter it.
  void Begin(std::string_view name, std::string_view unit, uint64_t already_done = 0);

  // Begins the phase when `name` is not the current one, then shows done of total (0: unknown).
  void Update(std::string_view name, std::string_view unit, uint64_t done, uint64_t total);
  void Update(uint64_t done, uint64_t total);

  // While false, a phase that goes on says "estimating" in place of rate and time left: a guess
  // from too little is wild. True again when another phase begins.
  void set_estimable(bool estimable) { estimable_ = estimable; }

  // Ends the current phase with its last numbers and `remark` ("reused", "failed: ..."), if any.
  void End(std::string_view remark = "");

  void set_quiet(bool quiet) { quiet_ = quiet; }
  bool terminal() const { return terminal_; }

 private:
  void Start(std::string_view name, std::string_view unit, uint64_t done, uint64_t total);
  std::string Line(std::string_view remark, bool final) const;
  void Draw(bool final, std::string_view remark);

  std::ostream& out_;
  const bool terminal_;
  bool quiet_;
  Clock* const clock_;

  bool active_ = false;
  bool estimable_ = true;
  bool drawn_ = false;  // a terminal line is on screen without its newline
  std::string name_, unit_;
  uint64_t start_done_ = 0, done_ = 0, total_ = 0;
  int64_t start_ms_ = 0, last_draw_ms_ = 0;
};

// "1.5 MiB", "812 B".
std::string HumanBytes(uint64_t bytes);
// "14 s", "3 min 20 s", "2 h 05 min".
std::string HumanDuration(int64_t seconds);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_PROGRESS_H_
