// GGUF containers: every value and tensor that is handed out lies in the file.

#include "storage/format/gguf.h"

#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(gguf) {
  const auto* data = reinterpret_cast<const uint8_t*>(input.data());
  const auto file = GgufFile::Parse({data, input.size()}, "input");
  if (!file.ok()) return;
  size_t letters = 0;
  for (const auto& [key, value] : (*file)->kv()) {
    letters += key.size();
    if (value.type == GgufType::kArray) {
      if (value.element_type == GgufType::kString)
        for (const std::string_view text : GgufStrings(value)) letters += text.size();
      fuzz::Require(value.array_bytes.size() <= input.size(), "an array lies in its file");
    }
    (void)(*file)->Int(key, -1000, 1000);
    (void)(*file)->Number(key);
    (void)(*file)->String(key);
  }
  fuzz::Require(letters <= input.size(), "strings are parts of the file");
  for (const GgufTensor& tensor : (*file)->tensors()) {
    fuzz::Require(tensor.bytes.data() >= data &&
                      tensor.bytes.data() + tensor.bytes.size() <= data + input.size(),
                  "a tensor lies in its file");
    fuzz::Require((*file)->Find(tensor.name) == &tensor, "a tensor is found by its name");
    const uint64_t rows =
        tensor.ne.empty() || tensor.ne[0] == 0 ? 0 : tensor.elements() / tensor.ne[0];
    fuzz::Require(rows * tensor.row_bytes() == tensor.bytes.size(), "rows make up the tensor");
  }
}

}  // namespace assay
