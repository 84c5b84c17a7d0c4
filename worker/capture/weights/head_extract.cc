#include "worker/capture/weights/head_extract.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "storage/base/atomic_file.h"
#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/format/safetensors.h"

namespace assay {
namespace {

constexpr std::string_view kHeadTensor = "lm_head.weight";
constexpr uint64_t kPieceValues = uint64_t{1} << 20;

}  // namespace

absl::StatusOr<HeadInfo> ExtractHead(const Checkpoint& checkpoint, const std::string& out_path) {
  const std::string source =
      checkpoint.config().tied ? "model.embed_tokens.weight" : std::string(kHeadTensor);
  ASSAY_ASSIGN_OR_RETURN(const std::vector<uint64_t> shape, checkpoint.Shape(source));
  HeadInfo info;
  info.tensor = std::string(kHeadTensor);
  info.vocab = shape[0];
  info.hidden = shape[1];
  info.dtype = DType::kBF16;

  ASSAY_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(out_path));
  const std::string header = SafetensorsHeader({{info.tensor, DType::kBF16, shape}});
  Sha256 file_digest, content_digest;
  file_digest.Update(header);
  ASSAY_RETURN_IF_ERROR(file->Append(header));

  // Piece by piece: a head of a large model is bigger than what a rank should hold twice.
  const uint64_t step = std::max<uint64_t>(1, kPieceValues / info.hidden);
  std::vector<float> values(step * info.hidden);
  std::vector<uint16_t> rounded(step * info.hidden);
  for (uint64_t row = 0; row < info.vocab; row += step) {
    const uint64_t end = std::min(info.vocab, row + step);
    const uint64_t count = (end - row) * info.hidden;
    ASSAY_RETURN_IF_ERROR(checkpoint.ReadRows(source, row, end, values.data()));
    for (uint64_t i = 0; i < count; ++i) {
      rounded[i] = FloatToBf16(values[i]);
      if (const float value = std::abs(Bf16ToFloat(rounded[i])); std::isfinite(value))
        info.max_abs = std::max(info.max_abs, static_cast<double>(value));
    }
    const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(rounded.data()),
                                         count * sizeof(uint16_t));
    file_digest.Update(bytes);
    content_digest.Update(bytes);
    ASSAY_RETURN_IF_ERROR(file->Append(bytes));
  }
  ASSAY_RETURN_IF_ERROR(file->Commit());
  info.file_sha256 = file_digest.FinishHex();
  info.content_sha256 = content_digest.FinishHex();
  return info;
}

}  // namespace assay
