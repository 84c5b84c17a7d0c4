#include "worker/replay/kernels.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace assay {

#if defined(__x86_64__)
namespace vec_avx512 {
extern const ReplayKernels kKernels;
}
namespace vec_avx2 {
extern const ReplayKernels kKernels;
}
#endif
namespace vec_portable {
extern const ReplayKernels kKernels;
}

namespace {

struct Tables {
  std::array<const ReplayKernels*, 3> list{};
  int count = 0;
  Tables() {
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      list[count++] = &vec_avx512::kKernels;
    }
    if (avx2) list[count++] = &vec_avx2::kKernels;
#endif
    list[count++] = &vec_portable::kKernels;
  }
};

const Tables& AllTables() {
  static const Tables tables;
  return tables;
}

std::atomic<const ReplayKernels*> chosen = nullptr;

}  // namespace

const ReplayKernels& Kernels() {
  const ReplayKernels* const table = chosen.load(std::memory_order_relaxed);
  return table != nullptr ? *table : *AllTables().list[0];
}

void UseKernels(const ReplayKernels* table) { chosen.store(table, std::memory_order_relaxed); }

const ReplayKernels* const* AllKernels(int* count) {
  *count = AllTables().count;
  return AllTables().list.data();
}

}  // namespace assay
