#define ASSAY_VEC_NAMESPACE bare_portable
#define ASSAY_VEC_ISA "portable"
#include "tests/bench/bare_calls.inc"
