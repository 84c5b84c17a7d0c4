#include "worker/replay/rows.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "storage/base/bf16.h"
#include "storage/base/checked.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {

void AlignedBuffer::Free::operator()(uint8_t* p) const { std::free(p); }

void AlignedBuffer::Resize(uint64_t bytes) {
  constexpr uint64_t kLine = 64, kHugePage = 2 << 20;
  const uint64_t needed = bytes + kLine;
  const uint64_t unit = needed >= 2 * kHugePage ? kHugePage : kLine;
  const uint64_t want = (needed + unit - 1) / unit * unit;
  if (want <= capacity_) return;
  data_.reset();
  data_.reset(static_cast<uint8_t*>(std::aligned_alloc(unit, want)));
  if (data_ == nullptr) throw std::bad_alloc();
  if (unit == kHugePage) madvise(data_.get(), want, MADV_HUGEPAGE);  // a refusal costs time only
  capacity_ = want;
}

absl::StatusOr<RowBlock> FetchRows(const Job& job, size_t operand, size_t context) {
  const ReplayOperand& o = job.plan->operands[operand];
  const ReplayContext& c = job.plan->contexts[context];
  ASSAY_ASSIGN_OR_RETURN(RowBlock block, o.rows(context));
  const std::string where = "operand \"" + o.id + "\", context " + std::to_string(c.index) + ": ";
  if (block.rows != c.observed.size()) {
    return InvalidError("SHAPE_MISMATCH", where + std::to_string(block.rows) +
                                              " rows, the context has " +
                                              std::to_string(c.observed.size()));
  }
  const uint64_t element = block.type == RowType::kBf16 ? 2 : 4;
  const auto elements = CheckedMul(block.rows, block.width);
  const auto bytes = elements ? CheckedMul(*elements, element) : std::nullopt;
  if (!bytes || *bytes != block.bytes.size()) {
    return InvalidError("SHAPE_MISMATCH", where + std::to_string(block.bytes.size()) +
                                              " bytes do not hold rows of width " +
                                              std::to_string(block.width));
  }
  if (o.kind == OperandKind::kLogits) {
    if (block.type != RowType::kF32)
      return InvalidError("SHAPE_MISMATCH", where + "logits must be F32");
    const bool fits =
        job.plan->valid_vocab ? block.width >= job.columns : block.width == job.columns;
    if (!fits) {
      return InvalidError("SHAPE_MISMATCH", where + "logits have " + std::to_string(block.width) +
                                                " columns, the vocabulary has " +
                                                std::to_string(job.columns));
    }
    return block;
  }
  for (const Source& source : job.sources) {
    if (source.operand != operand) continue;
    const ReplayHead& head = job.plan->heads[*source.head];
    if (head.hidden != block.width) {
      return InvalidError("SHAPE_MISMATCH", where + "hidden states have width " +
                                                std::to_string(block.width) + ", head \"" +
                                                head.id + "\" has " + std::to_string(head.hidden));
    }
  }
  return block;
}

void CopyAsBf16(const RowBlock& block, uint16_t* out) {
  if (block.type == RowType::kBf16) {
    std::memcpy(out, block.bytes.data(), block.bytes.size());
    return;
  }
  const size_t count = block.bytes.size() / 4;
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, block.bytes.data() + 4 * i, 4);
    out[i] = FloatToBf16(value);
  }
}

void CopyAsWidened(const RowBlock& block, float* out) {
  const size_t count = block.rows * block.width;
  for (size_t i = 0; i < count; ++i) {
    if (block.type == RowType::kBf16) {
      uint16_t bits;
      std::memcpy(&bits, block.bytes.data() + 2 * i, 2);
      out[i] = Bf16ToFloat(bits);
    } else {
      float value;
      std::memcpy(&value, block.bytes.data() + 4 * i, 4);
      out[i] = Bf16ToFloat(FloatToBf16(value));
    }
  }
}

ScanResult ScanHidden(const RowBlock& block) {
  if (block.type == RowType::kBf16) return ScanBf16(block.bytes);
  std::vector<uint16_t> rounded(block.rows * block.width);
  CopyAsBf16(block, rounded.data());
  return ScanBf16({reinterpret_cast<const uint8_t*>(rounded.data()), rounded.size() * 2});
}

}  // namespace assay
