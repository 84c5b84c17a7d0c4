// The program assay.

#include <unistd.h>

#include <iostream>

#include "client/cli/command.h"
#include "client/cli/interrupt.h"

int main(int argc, char** argv) {
  assay::InstallInterruptHandler();
  return assay::RunCli(argc, argv, std::cout, std::cerr, isatty(STDERR_FILENO) == 1);
}
