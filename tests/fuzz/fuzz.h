// What a fuzz target is written with.
//
// A target is a function of bytes. It must return for every input, without a crash, a leak or
// memory out of proportion to the input; what it computes must hold together (Require). With
// libFuzzer (-DASSAY_FUZZ=ON, tests/fuzz/run.sh) every target is a program of its own; in the plain
// build fuzz_corpus_test runs all of them over their corpora (corpus_main.cc).

#ifndef ASSAY_TESTS_FUZZ_FUZZ_H_
#define ASSAY_TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay::fuzz {

using Target = void (*)(std::string_view input);

// Targets linked into this program, by name.
struct NamedTarget {
  const char* name;
  Target run;
};
std::vector<NamedTarget>& Targets();
bool Register(const char* name, Target run);

// Ends the process, saying `what`, unless `holds`: a result that contradicts itself.
void Require(bool holds, const char* what);

// Top folder of the source tree: $ASSAY_SOURCE_DIR, else the one this was compiled from.
std::string SourceDir();

// A folder in memory (or in the temporary folder) that is gone when the process ends; one for each
// process.
const std::string& ScratchDir();

// Writes `bytes` to `path` below ScratchDir(), replacing what was there; the whole path. For
// parsers that read files.
std::string ScratchFile(const std::string& path, std::string_view bytes);

}  // namespace assay::fuzz

// Defines the target `name`: ASSAY_FUZZ_TARGET(gguf) { ... uses std::string_view input ... }
#define ASSAY_FUZZ_TARGET(name)                          \
  static void FuzzTarget_##name(std::string_view input); \
  [[maybe_unused]] static const bool registered_##name = \
      ::assay::fuzz::Register(#name, FuzzTarget_##name); \
  static void FuzzTarget_##name(std::string_view input)

#endif  // ASSAY_TESTS_FUZZ_FUZZ_H_
