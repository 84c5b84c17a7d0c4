// Kind "arch": tiny checkpoints with goldens, FOLDER/golden.safetensors beside a Hugging Face
// folder and NAME.safetensors beside NAME.gguf (see the README of the folder). The values are
// checked once; groups of other sizes must give the same bytes.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <set>

#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "tests/golden/golden.h"

namespace assay::golden {
namespace {

// The README's limit for a float32 engine against hidden_f64; the residual goldens are float32
// themselves, so their own error comes on top.
constexpr double kHiddenLimit = 1e-4;
constexpr double kResidualLimit = 2e-4;
constexpr int kSequencesMax = 1000;
constexpr int kDegrees[] = {1, 2, 4, 8};

class ArchCase {
 public:
  ArchCase(const Options& options, Group& group, std::string model,
           std::shared_ptr<const SafetensorsFile> golden, std::string sequence)
      : options_(options),
        group_(group),
        model_(std::move(model)),
        golden_(std::move(golden)),
        sequence_(std::move(sequence)) {}

  absl::Status Capture();
  // "" or what is wrong; after Capture. `worst` grows to the largest distance from hidden_f64.
  std::string Check(double* worst) const;
  // Digests of all written files, by name; after Capture.
  absl::StatusOr<std::map<std::string, std::string>> Digests() const;

 private:
  std::string Compare(const std::string& tap, const std::vector<double>& want, double limit,
                      double* worst) const;
  std::string CheckStoredRows() const;
  std::string out() const { return JoinPath(options_.work, "arch-out"); }

  const Options& options_;
  Group& group_;
  const std::string model_;
  const std::shared_ptr<const SafetensorsFile> golden_;
  const std::string sequence_;
  uint64_t length_ = 0, width_ = 0, layers_ = 0;
};

absl::Status ArchCase::Capture() {
  ASSAY_RETURN_IF_ERROR(RemoveTree(out()));
  ASSAY_ASSIGN_OR_RETURN(std::vector<int64_t> ids, Ints(*golden_, sequence_ + ".input_ids"));
  ASSAY_ASSIGN_OR_RETURN(const TensorView hidden, golden_->Find(sequence_ + ".hidden_f64"));
  length_ = ids.size();
  width_ = hidden.shape.at(1);
  // A capture drops the last row and needs a token after the one it scores: one more token changes
  // nothing before it in a causal model.
  ids.push_back(0);
  Json taps = {"final_norm"};
  if (golden_->Has(sequence_ + ".residual")) {
    ASSAY_ASSIGN_OR_RETURN(const TensorView residual, golden_->Find(sequence_ + ".residual"));
    layers_ = residual.shape.at(0) - 1;
    taps.push_back("embedding");
    for (uint64_t layer = 0; layer < layers_; ++layer) {
      taps.push_back("layers." + std::to_string(layer) + ".residual");
    }
  }
  const Json unit = {{"kind", "capture"},
                     {"model", {{"path", model_}, {"transform", ""}}},
                     {"contexts", Json::array({{{"index", 0}, {"tokens", ids}}})},
                     {"taps", taps}};
  return group_.Run(unit, out()).status();
}

std::string ArchCase::Compare(const std::string& tap, const std::vector<double>& want, double limit,
                              double* worst_so_far) const {
  const auto file = SafetensorsFile::Open(JoinPath(out(), "tap_" + tap + "_0000.safetensors"));
  if (!file.ok()) return Describe(file.status());
  auto got = Doubles(**file, "tap");
  if (!got.ok()) return Describe(got.status());
  if (got->size() < want.size()) return tap + " has too few values";
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double distance = std::fabs((*got)[i] - want[i]);
    if (distance <= worst) continue;
    worst = distance;
    where = i;
    if (std::isnan(worst)) break;  // nothing is further off
  }
  if (worst <= limit) {
    *worst_so_far = std::max(*worst_so_far, worst);
    return "";
  }
  char text[200];
  snprintf(text, sizeof(text), "%s differs by %.3g at token %zu, element %zu (limit %.1g)",
           tap.c_str(), worst, where / width_, where % width_, limit);
  return text;
}

// The stored rows are the tapped float32 rows, rounded once to bf16.
std::string ArchCase::CheckStoredRows() const {
  const auto file = SafetensorsFile::Open(JoinPath(out(), HiddenFileName(0)));
  const auto tap = SafetensorsFile::Open(JoinPath(out(), "tap_final_norm_0000.safetensors"));
  if (!file.ok()) return Describe(file.status());
  if (!tap.ok()) return Describe(tap.status());
  const auto rows = (*file)->Find(kHiddenTensorName);
  const auto full = (*tap)->Find("tap");
  if (!rows.ok()) return Describe(rows.status());
  if (!full.ok()) return Describe(full.status());
  const std::vector<uint64_t> shape = {length_, width_};
  if (rows->dtype != DType::kBF16 || rows->shape != shape) return "stored rows have another shape";
  for (size_t i = 0; i < length_ * width_; ++i) {
    float value;
    uint16_t stored;
    memcpy(&value, full->bytes.data() + 4 * i, 4);
    memcpy(&stored, rows->bytes.data() + 2 * i, 2);
    if (FloatToBf16(value) != stored) {
      return "stored row " + std::to_string(i / width_) + " is not the rounded final norm";
    }
  }
  return "";
}

std::string ArchCase::Check(double* worst) const {
  const auto hidden = Doubles(*golden_, sequence_ + ".hidden_f64");
  if (!hidden.ok()) return Describe(hidden.status());
  if (layers_ > 0) {
    const auto residual = Doubles(*golden_, sequence_ + ".residual");
    if (!residual.ok()) return Describe(residual.status());
    const size_t step = length_ * width_;
    for (uint64_t layer = 0; layer <= layers_; ++layer) {
      const auto begin = residual->begin() + static_cast<ptrdiff_t>(layer * step);
      const std::vector<double> want(begin, begin + static_cast<ptrdiff_t>(step));
      const std::string tap =
          layer == 0 ? "embedding" : "layers." + std::to_string(layer - 1) + ".residual";
      double ignored = 0;
      const std::string problem = Compare(tap, want, kResidualLimit, &ignored);
      if (!problem.empty()) return problem;
    }
  }
  const std::string problem = Compare("final_norm", *hidden, kHiddenLimit, worst);
  return problem.empty() ? CheckStoredRows() : problem;
}

absl::StatusOr<std::map<std::string, std::string>> ArchCase::Digests() const {
  std::map<std::string, std::string> digests;
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(out()));
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors")) continue;
    ASSAY_ASSIGN_OR_RETURN(digests[name], Sha256File(JoinPath(out(), name)));
  }
  return digests;
}

// A family or format that this build does not have is no failure of a case; anything else is.
bool NotSupported(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == "UNKNOWN_ARCHITECTURE" || reason == "UNSUPPORTED_MODEL_FEATURE" ||
         reason == "UNSUPPORTED_TENSOR_TYPE";
}

struct Model {
  std::string name, path, golden;
};

// Folders with a golden, and GGUF files inside folders.
absl::StatusOr<std::vector<Model>> FindModels(const std::string& dir) {
  std::vector<Model> models;
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(dir));
  for (const std::string& name : names) {
    const std::string folder = JoinPath(dir, name);
    const std::string golden = JoinPath(folder, "golden.safetensors");
    if (FileExists(golden)) models.push_back({name, folder, golden});
    if (!IsDirectory(folder)) continue;
    ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> files, ListDirectory(folder));
    for (const std::string& file : files) {
      if (!file.ends_with(".gguf")) continue;
      const std::string stem = file.substr(0, file.size() - 5);
      models.push_back(
          {name + "/" + file, JoinPath(folder, file), JoinPath(folder, stem + ".safetensors")});
    }
  }
  return models;
}

// All models on groups of one size after the other.
class ArchRun {
 public:
  explicit ArchRun(const Options& options) : options_(options) {}
  void With(int degree, const std::vector<Model>& models);
  int Finish() const { return tally_.Finish(); }

 private:
  void RunModel(Group& group, const Model& model, int degree);
  std::string Judge(const ArchCase& run, const std::string& name, double* worst);

  const Options& options_;
  Tally tally_;
  std::map<std::string, std::map<std::string, std::string>> first_;  // digests by case
  std::set<std::string> skipped_;
};

// The values when the case is seen for the first time, else that the bytes are those of then.
std::string ArchRun::Judge(const ArchCase& run, const std::string& name, double* worst) {
  const auto digests = run.Digests();
  if (!digests.ok()) return Describe(digests.status());
  const auto [entry, is_new] = first_.emplace(name, *digests);
  if (is_new) return run.Check(worst);
  return entry->second == *digests ? "" : "other bytes than with fewer ranks";
}

void ArchRun::RunModel(Group& group, const Model& model, int degree) {
  const auto golden = SafetensorsFile::Open(model.golden);
  if (!golden.ok()) return tally_.Case(model.name, Describe(golden.status()));
  int found = 0;
  double worst = -1;  // until values are compared
  for (int n = 0; n < kSequencesMax; ++n) {
    const std::string sequence = "seq" + std::to_string(n);
    if (!(*golden)->Has(sequence + ".input_ids")) continue;
    ++found;
    const std::string name = model.name + " " + sequence;
    ArchCase run(options_, group, model.path, *golden, sequence);
    const absl::Status captured = run.Capture();
    if (NotSupported(captured)) {
      skipped_.insert(model.name);
      return tally_.Skip(model.name, Describe(captured));
    }
    const std::string problem = captured.ok() ? Judge(run, name, &worst) : Describe(captured);
    tally_.Case(name + ", " + std::to_string(degree) + " ranks", problem);
  }
  if (found == 0) return tally_.Case(model.name, model.golden + " has no sequence");
  if (worst >= 0) printf("%s: at most %.1e from the golden\n", model.name.c_str(), worst);
}

void ArchRun::With(int degree, const std::vector<Model>& models) {
  GroupOptions group_options;
  group_options.size = degree;
  group_options.threads = options_.threads;
  group_options.work_dir = JoinPath(options_.work, "group-" + std::to_string(degree));
  group_options.rank_program = options_.rank_program;
  auto group = Group::Start(group_options);
  if (!group.ok()) return tally_.Case("start", Describe(group.status()));
  for (const Model& model : models) {
    if (!skipped_.contains(model.name)) RunModel(**group, model, degree);
  }
}

}  // namespace

int RunArch(const Options& options) {
  ArchRun run(options);
  const auto models = FindModels(options.dir);
  if (!models.ok()) {
    Tally tally;
    tally.Case("start", Describe(models.status()));
    return tally.Finish();
  }
  std::vector<int> degrees(std::begin(kDegrees), std::end(kDegrees));
  if (options.tp > 1) degrees = {options.tp};
  for (const int degree : degrees) run.With(degree, *models);
  return run.Finish();
}

}  // namespace assay::golden
