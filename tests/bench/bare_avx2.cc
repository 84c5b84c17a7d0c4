#define ASSAY_VEC_NAMESPACE bare_avx2
#define ASSAY_VEC_ISA "avx2"
#include "tests/bench/bare_calls.inc"
