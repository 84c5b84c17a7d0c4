#define ASSAY_VEC_NAMESPACE bare_avx512
#define ASSAY_VEC_ISA "avx512"
#include "tests/bench/bare_calls.inc"
