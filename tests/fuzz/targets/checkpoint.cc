// Checkpoints of models. A file that starts with "GGUF" is opened as one; otherwise the first line
// is a config.json and the rest a model.safetensors. Every tensor of what was accepted is read.

#include "worker/capture/weights/checkpoint.h"

#include <algorithm>
#include <vector>

#include "storage/base/files.h"
#include "tests/fuzz/fuzz.h"

namespace assay {
namespace {

constexpr uint64_t kValuesMax =
    1 << 16;  // of one tensor; more rows would only repeat the same steps

void Read(const Checkpoint& checkpoint) {
  (void)checkpoint.facts().ToJson();
  std::vector<float> values;
  for (const std::string& name : checkpoint.Names()) {
    const auto shape = checkpoint.Shape(name);
    fuzz::Require(shape.ok() && !shape->empty(), "a tensor that is listed has a shape");
    uint64_t width = 1;
    for (size_t i = 1; i < shape->size(); ++i) width *= (*shape)[i];
    const uint64_t rows = std::min((*shape)[0], kValuesMax / std::max<uint64_t>(width, 1));
    if (rows == 0) continue;
    values.assign(rows * width, 0);
    (void)checkpoint.ReadRows(name, 0, rows, values.data());
    (void)checkpoint.ReadRows(name, (*shape)[0] - 1, (*shape)[0], values.data());
    fuzz::Require(!checkpoint.ReadRows(name, 0, (*shape)[0] + 1, values.data()).ok(),
                  "rows beyond the last are refused");
  }
}

std::string Place(std::string_view input) {
  if (input.substr(0, 4) == "GGUF") return fuzz::ScratchFile("model.gguf", input);
  const std::string folder = JoinPath(fuzz::ScratchDir(), "model");
  fuzz::Require(EnsureDirectory(folder).ok(), "a folder can be made");
  const size_t line = std::min(input.find('\n'), input.size());
  fuzz::ScratchFile("model/config.json", input.substr(0, line));
  fuzz::ScratchFile("model/model.safetensors", input.substr(std::min(line + 1, input.size())));
  return folder;
}

}  // namespace

ASSAY_FUZZ_TARGET(checkpoint) {
  const std::string path = Place(input);
  for (const char* transform : {"", "rtn:bits=4,group=32"}) {
    const auto checkpoint = Checkpoint::Open(path, transform);
    if (checkpoint.ok()) Read(**checkpoint);
  }
}

}  // namespace assay
