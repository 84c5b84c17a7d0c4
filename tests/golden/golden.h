// The golden runner: the built product over a folder of cases whose answers come from elsewhere.
//
// Nothing here knows an expected value: all are read from the folder.

#ifndef ASSAY_TESTS_GOLDEN_GOLDEN_H_
#define ASSAY_TESTS_GOLDEN_GOLDEN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/format/safetensors.h"
#include "worker/group/group.h"
#include "worker/group/offline.h"

namespace assay::golden {

// Counts cases and prints a line for each one that fails or is skipped.
class Tally {
 public:
  // `problem` empty: passed.
  void Case(const std::string& name, const std::string& problem);
  void Skip(const std::string& name, const std::string& why);
  int Finish() const;  // prints the count; exit code

 private:
  int passed_ = 0, failed_ = 0, skipped_ = 0;
};

struct Options {
  std::string dir;
  std::string rank_program;
  std::string work;  // scratch folder, removed by the caller
  int tp = 1;
  int threads = 0;
};

int RunMetric(const Options& options);
int RunQf(const Options& options);
int RunSmollm2(const Options& options);
int RunArch(const Options& options);
int RunWeights(const Options& options);
int RunLlamacpp(const Options& options);
int RunDataset(const Options& options);
int RunReceipts(const Options& options);

// Values of a tensor as doubles (F64, F32, BF16) or int64 (I64, I32). Fails the program's case by
// an error that names file and tensor.
absl::StatusOr<std::vector<double>> Doubles(const SafetensorsFile& file, const std::string& name);
absl::StatusOr<std::vector<int64_t>> Ints(const SafetensorsFile& file, const std::string& name);

// "[REASON] sentence".
std::string Describe(const absl::Status& status);

}  // namespace assay::golden

#endif  // ASSAY_TESTS_GOLDEN_GOLDEN_H_
