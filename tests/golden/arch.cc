// Kind "arch": tiny checkpoints with goldens, FOLDER/golden.safetensors beside a Hugging Face
// folder and NAME.safetensors beside NAME.gguf (see the README of the folder).

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "storage/base/bf16.h"
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
  // "" or what is wrong; after Capture.
  std::string Check() const;

 private:
  std::string Compare(const std::string& tap, const std::vector<double>& want, double limit) const;
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

std::string ArchCase::Compare(const std::string& tap, const std::vector<double>& want,
                              double limit) const {
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
  if (worst <= limit) return "";
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

std::string ArchCase::Check() const {
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
      const std::string problem = Compare(tap, want, kResidualLimit);
      if (!problem.empty()) return problem;
    }
  }
  const std::string problem = Compare("final_norm", *hidden, kHiddenLimit);
  return problem.empty() ? CheckStoredRows() : problem;
}

// A family or format that this build does not have is no failure of a case; anything else is.
bool NotSupported(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == "UNKNOWN_ARCHITECTURE" || reason == "UNSUPPORTED_MODEL_FEATURE" ||
         reason == "UNSUPPORTED_TENSOR_TYPE";
}

void RunModel(const Options& options, Group& group, const std::string& name,
              const std::string& model, const std::string& golden_path, Tally* tally) {
  const auto golden = SafetensorsFile::Open(golden_path);
  if (!golden.ok()) return tally->Case(name, Describe(golden.status()));
  int found = 0;
  for (int n = 0; n < kSequencesMax; ++n) {
    const std::string sequence = "seq" + std::to_string(n);
    if (!(*golden)->Has(sequence + ".input_ids")) continue;
    ++found;
    ArchCase run(options, group, model, *golden, sequence);
    const absl::Status captured = run.Capture();
    if (NotSupported(captured)) return tally->Skip(name, Describe(captured));
    tally->Case(name + " " + sequence, captured.ok() ? run.Check() : Describe(captured));
  }
  if (found == 0) tally->Case(name, golden_path + " has no sequence");
}

bool EndsWith(const std::string& text, const std::string& tail) {
  return text.size() > tail.size() &&
         text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

}  // namespace

int RunArch(const Options& options) {
  Tally tally;
  GroupOptions group_options;
  group_options.size = options.tp;
  group_options.threads = options.threads;
  group_options.work_dir = JoinPath(options.work, "group");
  group_options.rank_program = options.rank_program;
  auto group = Group::Start(group_options);
  const auto names = ListDirectory(options.dir);
  if (!group.ok() || !names.ok()) {
    tally.Case("start", Describe(group.ok() ? names.status() : group.status()));
    return tally.Finish();
  }
  for (const std::string& name : *names) {
    const std::string folder = JoinPath(options.dir, name);
    const std::string golden = JoinPath(folder, "golden.safetensors");
    if (FileExists(golden)) RunModel(options, **group, name, folder, golden, &tally);
    if (!IsDirectory(folder)) continue;
    const auto files = ListDirectory(folder);
    if (!files.ok()) continue;
    for (const std::string& file : *files) {
      if (!EndsWith(file, ".gguf")) continue;
      const std::string stem = file.substr(0, file.size() - 5);
      RunModel(options, **group, name + "/" + file, JoinPath(folder, file),
               JoinPath(folder, stem + ".safetensors"), &tally);
    }
  }
  return tally.Finish();
}

}  // namespace assay::golden
