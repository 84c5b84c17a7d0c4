// safetensors headers, and what is done with a file once it is open: heads and hidden files.

#include "storage/format/safetensors.h"

#include "storage/format/capture.h"
#include "storage/format/head.h"
#include "tests/fuzz/fuzz.h"

namespace assay {

ASSAY_FUZZ_TARGET(safetensors) {
  const auto* data = reinterpret_cast<const uint8_t*>(input.data());
  const auto file = SafetensorsFile::Parse({data, input.size()}, "input");
  if (!file.ok()) return;
  uint64_t bytes = 0;
  for (const TensorView& tensor : (*file)->tensors()) {
    fuzz::Require(tensor.bytes.size() == tensor.elements() * DTypeBytes(tensor.dtype),
                  "a tensor has the bytes of its shape");
    fuzz::Require(
        tensor.bytes.empty() || (tensor.bytes.data() >= data &&
                                 tensor.bytes.data() + tensor.bytes.size() <= data + input.size()),
        "a tensor lies in its file");
    fuzz::Require((*file)->Find(tensor.name).ok(), "a tensor is found by its name");
    bytes += tensor.bytes.size();
    MaxAbs(tensor);
  }
  fuzz::Require(bytes <= input.size(), "tensors do not overlap");
  (void)CheckHiddenFile(**file, 2, 4);
  (void)FindHeadTensor(**file, "");
  (void)ReadHeadBias(**file, "", 4);
}

}  // namespace assay
