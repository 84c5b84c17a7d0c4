// Memory of mapped files that was read and will not be soon again.

#ifndef ASSAY_STORAGE_BASE_MAPPED_PAGES_H_
#define ASSAY_STORAGE_BASE_MAPPED_PAGES_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>

namespace assay {

// Takes the whole pages of `bytes`, part of a file mapped for reading, out of this process's
// memory; they come back when they are read again. Never for other memory: it would be lost.
inline void ReleaseMappedPages(std::span<const uint8_t> bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = (address + page - 1) / page * page;
  const uintptr_t last = (address + bytes.size()) / page * page;
  if (first >= last) return;
  // An address inside `bytes`; a refusal only keeps the pages.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_MAPPED_PAGES_H_
