// The metric kernels compiled for one instruction set; flags are set in CMakeLists.txt.

#define ASSAY_VEC_NAMESPACE vec_portable
#define ASSAY_VEC_ISA "portable"
#include "worker/replay/kernels.inc"
