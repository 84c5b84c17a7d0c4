// Verifying a capture against plain SHA-256 over its files, same threads, as JSON: the row
// capture-verify of tests/bench/run.sh.
//
//   assay_verify_bench [--contexts N] [--rows N] [--width N] [--threads N] [--repeats N] [--work
//   DIR]
//
// The capture is made up and written first, so both read the page cache.

#include <openssl/evp.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/published/capture_folder.h"
#include "tests/bench/bench_util.h"

namespace assay::bench {
namespace {

// A capture of `contexts` files, [rows, width] in bf16, finite values. The paths of its files.
std::vector<std::string> MakeCapture(const std::string& dir, int64_t contexts, uint64_t rows,
                                     uint64_t width) {
  if (!EnsureDirectory(dir).ok()) Die("cannot make " + dir);
  std::vector<std::string> files;
  Json captures = Json::array();
  std::vector<uint16_t> values(rows * width);
  uint64_t state = 88172645463325252u;
  for (int64_t i = 0; i < contexts; ++i) {
    for (uint16_t& value : values) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      value = static_cast<uint16_t>(0x3f00 | (state & 0x80ff));
    }
    const auto bytes = BuildHiddenFile(values, rows, width);
    files.push_back(JoinPath(dir, HiddenFileName(i)));
    if (!bytes.ok() || !WriteFile(files.back(), *bytes).ok()) Die("cannot write " + files.back());
    captures.push_back({{"index", i}, {"sha256", Sha256Hex(*bytes)}, {"shape", {rows, width}}});
  }
  const Json manifest = {{"schema", std::string(kCaptureSchema)},
                         {"suite_token_sha256", Sha256Hex("bench")},
                         {"contexts", contexts},
                         {"captures", captures},
                         {"complete", true}};
  if (!WriteFile(JoinPath(dir, kCaptureManifestName), PythonPrettyJson(manifest)).ok())
    Die("cannot write the manifest");
  return files;
}

// SHA-256 by OpenSSL itself, files shared out among threads, read in pieces of 1 MiB.
void PlainSha256(const std::vector<std::string>& files, int threads) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    std::vector<char> buffer(1 << 20);
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    for (size_t i = next++; i < files.size(); i = next++) {
      EVP_DigestInit_ex(context, EVP_sha256(), nullptr);
      std::FILE* file = std::fopen(files[i].c_str(), "rb");
      if (file == nullptr) Die("cannot read " + files[i]);
      std::setvbuf(file, nullptr, _IONBF, 0);
      for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), file)) > 0;)
        EVP_DigestUpdate(context, buffer.data(), n);
      std::fclose(file);
      unsigned char digest[EVP_MAX_MD_SIZE];
      EVP_DigestFinal_ex(context, digest, nullptr);
    }
    EVP_MD_CTX_free(context);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
}

int Main(int argc, char** argv) {
  Flags flags = {{"--contexts", "16"}, {"--rows", "2047"}, {"--width", "5120"},
                 {"--threads", "1"},   {"--repeats", "5"}, {"--work", "/tmp"}};
  ReadFlags(argc, argv, 1, &flags);
  std::string pattern = JoinPath(flags["--work"], "assay-verify-bench-XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) Die("cannot make a folder in " + flags["--work"]);
  const std::string dir = JoinPath(pattern, "capture");
  const auto files = MakeCapture(dir, static_cast<int64_t>(Number(flags, "--contexts")),
                                 Number(flags, "--rows"), Number(flags, "--width"));
  CaptureCheckOptions options;
  options.threads = static_cast<int>(Number(flags, "--threads"));
  Samples verify, plain;
  bool ok = true;
  for (uint64_t i = 0; i < Number(flags, "--repeats"); ++i) {
    TakeInTurn(
        &plain, [&] { PlainSha256(files, options.threads); }, &verify,
        [&] { ok = ExamineCaptureFolder(dir, options).ok() && ok; });
  }
  std::filesystem::remove_all(pattern);
  if (!ok) Die("the capture did not verify");
  // Rates are the other way round than times.
  const Json result = {{"ratio", Ratio(plain, verify)},
                       {"verify", verify.ToJson()},
                       {"sha256", plain.ToJson()},
                       {"peak_bytes", PeakMemory()}};
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) { return assay::bench::Main(argc, argv); }
