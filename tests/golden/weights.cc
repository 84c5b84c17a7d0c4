// Kind "weights": packed weights and what trusted code decodes them to (see the README of the
// folder). One case for each tensor that has an expected value: X.safetensors beside an X.gguf
// holds the values of its tensors, other safetensors files hold cases of their own. All values must
// have the expected bits, however the rows are cut; a library's own result must be the value
// rounded once.

#include "storage/base/bf16.h"
#include "storage/base/f16.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/gguf.h"
#include "tests/golden/golden.h"
#include "worker/capture/weights/weight_cases_test_util.h"

namespace assay::golden {
namespace {

std::string CheckGgufTensor(const GgufFile& file, const TensorView& expected) {
  const GgufTensor* tensor = file.Find(expected.name);
  if (tensor == nullptr) return "is not in " + file.path();
  const auto format = FormatOfGgml(tensor->type);
  if (!format) return "type " + std::to_string(tensor->type) + " is not decoded";
  if (tensor->elements() != expected.elements()) return "has another size";
  std::vector<float> values(tensor->elements());
  DecodeWeights(*format, tensor->bytes.data(), values.size(), values.data());
  return CompareBits(values, expected);
}

// The values rounded once to the library's type.
std::string CheckLibrary(const std::vector<float>& values, const TensorView& library) {
  for (size_t i = 0; i < values.size(); ++i) {
    float want;
    uint16_t half = 0;
    if (library.dtype == DType::kF32) {
      std::memcpy(&want, library.bytes.data() + 4 * i, 4);
    } else {
      std::memcpy(&half, library.bytes.data() + 2 * i, 2);
      want = library.dtype == DType::kBF16 ? Bf16ToFloat(half) : F16ToFloat(half);
    }
    float got = values[i];
    if (library.dtype == DType::kBF16) got = Bf16ToFloat(FloatToBf16(got));
    if (library.dtype == DType::kF16) got = static_cast<float>(static_cast<_Float16>(got));
    if (got != want && (got == got || want == want))
      return "element " + std::to_string(i) + " rounds to another value than the library's";
  }
  return "";
}

std::string CheckCase(const SafetensorsFile& file, const std::string& name, const Json& about) {
  const auto c = ReadWeightCase(file, name, about);
  if (!c.ok()) return Describe(c.status());
  const auto opened = OpenCase(*c);
  if (!opened.ok()) return Describe(opened.status());
  for (const uint64_t step : {c->query.rows, uint64_t{1}, uint64_t{3}}) {
    const std::vector<float> values = DecodeCase(*c, *opened->tensor, step);
    std::string problem = CompareBits(values, c->expected);
    if (problem.empty() && !c->library.bytes.empty()) problem = CheckLibrary(values, c->library);
    if (!problem.empty()) return problem + " (" + std::to_string(step) + " rows at a time)";
  }
  return "";
}

void RunFile(const std::string& folder, const std::string& stem, Tally* tally) {
  const auto file = SafetensorsFile::Open(JoinPath(folder, stem + ".safetensors"));
  if (!file.ok()) return tally->Case(stem, Describe(file.status()));
  const std::string gguf = JoinPath(folder, stem + ".gguf");
  if (FileExists(gguf)) {
    const auto packed = GgufFile::Open(gguf);
    if (!packed.ok()) return tally->Case(stem, Describe(packed.status()));
    for (const TensorView& expected : (*file)->tensors())
      tally->Case(stem + " " + expected.name, CheckGgufTensor(**packed, expected));
    return;
  }
  const auto cases = (*file)->metadata().find("cases");
  if (cases == (*file)->metadata().end())
    return tally->Case(stem, "the metadata have no \"cases\"");
  const Json json = Json::parse(cases->second, nullptr, false);
  if (!json.is_object()) return tally->Case(stem, "\"cases\" is no JSON object");
  for (const auto& [name, about] : json.items())
    tally->Case(stem + " " + name, CheckCase(**file, name, about));
}

}  // namespace

int RunWeights(const Options& options) {
  Tally tally;
  const auto names = ListDirectory(options.dir);
  if (!names.ok()) {
    tally.Case("start", Describe(names.status()));
    return tally.Finish();
  }
  const std::string extension = ".safetensors";
  for (const std::string& name : *names) {
    if (name.ends_with(extension))
      RunFile(options.dir, name.substr(0, name.size() - extension.size()), &tally);
  }
  return tally.Finish();
}

}  // namespace assay::golden
