// assay-golden KIND DIR [--tp N] [--threads N]: see tests/golden/run.sh.

#include <stdlib.h>
#include <string.h>

#include <cstdio>
#include <functional>
#include <map>

#include "storage/base/bf16.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "tests/golden/golden.h"

namespace assay::golden {

void Tally::Case(const std::string& name, const std::string& problem) {
  if (problem.empty()) {
    ++passed_;
    return;
  }
  ++failed_;
  printf("FAIL %s: %s\n", name.c_str(), problem.c_str());
  fflush(stdout);
}

void Tally::Skip(const std::string& name, const std::string& why) {
  ++skipped_;
  printf("SKIP %s: %s\n", name.c_str(), why.c_str());
}

int Tally::Finish() const {
  if (skipped_ > 0) {
    printf("%d passed, %d failed, %d skipped\n", passed_, failed_, skipped_);
  } else {
    printf("%d passed, %d failed\n", passed_, failed_);
  }
  return failed_ == 0 && passed_ > 0 ? 0 : 1;
}

namespace {

template <typename T>
T Load(const TensorView& tensor, size_t i) {
  T value;
  memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

absl::StatusOr<std::vector<double>> Doubles(const SafetensorsFile& file, const std::string& name) {
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file.Find(name));
  std::vector<double> out(tensor.elements());
  for (size_t i = 0; i < out.size(); ++i) {
    if (tensor.dtype == DType::kF64) {
      out[i] = Load<double>(tensor, i);
    } else if (tensor.dtype == DType::kF32) {
      out[i] = Load<float>(tensor, i);
    } else if (tensor.dtype == DType::kBF16) {
      out[i] = Bf16ToFloat(Load<uint16_t>(tensor, i));
    } else {
      return InvalidError("GOLDEN_INVALID", file.path() + ": " + name + " holds no floats");
    }
  }
  return out;
}

absl::StatusOr<std::vector<int64_t>> Ints(const SafetensorsFile& file, const std::string& name) {
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file.Find(name));
  std::vector<int64_t> out(tensor.elements());
  for (size_t i = 0; i < out.size(); ++i) {
    if (tensor.dtype == DType::kI64) {
      out[i] = Load<int64_t>(tensor, i);
    } else if (tensor.dtype == DType::kI32) {
      out[i] = Load<int32_t>(tensor, i);
    } else {
      return InvalidError("GOLDEN_INVALID", file.path() + ": " + name + " holds no integers");
    }
  }
  return out;
}

std::string Describe(const absl::Status& status) {
  std::string out(1, '[');
  out += ReasonOf(status);
  out += "] ";
  out += MessageOf(status);
  return out;
}

}  // namespace assay::golden

namespace {

int Usage() {
  fprintf(stderr,
          "usage: assay-golden metric|qf|smollm2|arch|weights|llamacpp|fidelity-dataset|receipts "
          "DIR [--tp "
          "N] [--threads N]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  using assay::golden::Options;
  const std::map<std::string, std::function<int(const Options&)>> kinds = {
      {"metric", assay::golden::RunMetric},
      {"qf", assay::golden::RunQf},
      {"smollm2", assay::golden::RunSmollm2},
      {"arch", assay::golden::RunArch},
      {"weights", assay::golden::RunWeights},
      {"llamacpp", assay::golden::RunLlamacpp},
      {"fidelity-dataset", assay::golden::RunDataset},
      {"receipts", assay::golden::RunReceipts}};
  if (argc < 3 || kinds.count(argv[1]) == 0) return Usage();
  Options options;
  options.dir = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--tp") == 0) {
      options.tp = atoi(argv[i + 1]);
    } else if (strcmp(argv[i], "--threads") == 0) {
      options.threads = atoi(argv[i + 1]);
    } else {
      return Usage();
    }
  }
  options.rank_program = assay::JoinPath(assay::ProgramFolder(), "assay-rank");
  const char* base = getenv("TMPDIR");
  std::string work = std::string(base != nullptr ? base : "/tmp") + "/assay-golden-XXXXXX";
  if (mkdtemp(work.data()) == nullptr) {
    perror(work.c_str());
    return 1;
  }
  options.work = work;
  const int code = kinds.at(argv[1])(options);
  assay::RemoveTree(work).IgnoreError();
  return code;
}
