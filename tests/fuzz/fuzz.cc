#include "tests/fuzz/fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "storage/base/files.h"

namespace assay::fuzz {
namespace {

struct Scratch {
  Scratch() {
    const char* parent = IsDirectory("/dev/shm") ? "/dev/shm" : "/tmp";
    path = std::string(parent) + "/assay_fuzzXXXXXX";
    Require(::mkdtemp(path.data()) != nullptr, "a scratch folder can be made");
  }
  ~Scratch() { RemoveTree(path).IgnoreError(); }
  std::string path;
};

}  // namespace

std::vector<NamedTarget>& Targets() {
  static std::vector<NamedTarget> targets;
  return targets;
}

bool Register(const char* name, Target run) {
  Targets().push_back({name, run});
  return true;
}

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: this must hold and does not: %s\n", what);
  std::abort();
}

std::string SourceDir() {
  const char* dir = std::getenv("ASSAY_SOURCE_DIR");
  return dir == nullptr ? ASSAY_FUZZ_SOURCE_DIR : dir;
}

const std::string& ScratchDir() {
  static const Scratch scratch;
  return scratch.path;
}

std::string ScratchFile(const std::string& path, std::string_view bytes) {
  const std::string whole = JoinPath(ScratchDir(), path);
  std::ofstream out(whole, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  Require(out.good(), "a scratch file can be written");
  return whole;
}

}  // namespace assay::fuzz
