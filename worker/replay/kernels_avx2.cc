// The metric kernels compiled for one instruction set; flags are set in CMakeLists.txt.

#define ASSAY_VEC_NAMESPACE vec_avx2
#define ASSAY_VEC_ISA "avx2"
#include "worker/replay/kernels.inc"
