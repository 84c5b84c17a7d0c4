#include "client/cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "client/cli/exit_codes.h"

namespace assay {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnSignal(int) {
  if (interrupted.exchange(true)) _exit(kExitInterrupted);
}

}  // namespace

void InstallInterruptHandler() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool Interrupted() { return interrupted.load(); }

void SetInterruptedForTest(bool value) { interrupted = value; }

}  // namespace assay
