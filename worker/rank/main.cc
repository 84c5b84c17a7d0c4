// The program assay-rank: computes units for the process that started it, and ends with it.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "worker/rank/channel.h"
#include "worker/rank/rank_service.h"

namespace {

volatile sig_atomic_t g_parent = 0;

// The kernel sends PR_SET_PDEATHSIG when the thread that spawned us ends, which need not be the end
// of the process; only a new parent means that the old one is gone.
void OnParentDeath(int) {
  if (getppid() != static_cast<pid_t>(g_parent)) _exit(0);
}

void TieToParent() {
  g_parent = getppid();
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = OnParentDeath;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  // Ctrl-C reaches the whole foreground group; the parent decides what becomes of the unit.
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

int Usage() {
  fprintf(stderr,
          "assay-rank computes units of work for assay and assay-worker, which start it with\n"
          "    assay-rank --fd N\n"
          "where N is an inherited stream socket. It is of no use on its own.\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || strcmp(argv[1], "--fd") != 0) return Usage();
  char* end = nullptr;
  const long fd = strtol(argv[2], &end, 10);
  int type = 0;
  socklen_t length = sizeof(type);
  if (*argv[2] == '\0' || *end != '\0' || fd < 0 || fd > 1 << 20 ||
      getsockopt(static_cast<int>(fd), SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
      type != SOCK_STREAM) {
    return Usage();
  }
  TieToParent();
  assay::RankChannel channel(static_cast<int>(fd));
  const int code = assay::ServeRank(channel);
  // No destructors: threads of the libraries may still be running, and nothing is left to save.
  fflush(nullptr);
  _exit(code);
}
