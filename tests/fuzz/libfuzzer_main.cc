// Joins the one target of a program with libFuzzer.

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const assay::fuzz::Target run = [] {
    assay::fuzz::Require(assay::fuzz::Targets().size() == 1, "one target is linked");
    return assay::fuzz::Targets().front().run;
  }();
  run({reinterpret_cast<const char*>(data), size});
  return 0;
}
