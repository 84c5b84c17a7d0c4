// Ctrl-C and SIGTERM as a flag that long commands poll.

#ifndef ASSAY_CLIENT_CLI_INTERRUPT_H_
#define ASSAY_CLIENT_CLI_INTERRUPT_H_

namespace assay {

// Catches SIGINT, SIGTERM and SIGHUP from now on: the first one only sets the flag, so that the
// command can stop politely; the second one ends the process at once with exit code 130. Ignores
// SIGPIPE. Process-wide; call once from main.
void InstallInterruptHandler();

// True once a signal has come. Cheap; any thread.
bool Interrupted();

// Sets the flag as a signal would (true) or clears it (false); for tests.
void SetInterruptedForTest(bool value);

}  // namespace assay

#endif  // ASSAY_CLIENT_CLI_INTERRUPT_H_
