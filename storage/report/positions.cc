#include "storage/report/positions.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "storage/base/checked.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

static_assert(std::endian::native == std::endian::little,
              "arrays are stored as they lie in memory");

// Logits are float32, so no finite output comes near this; sums of such values cannot overflow.
constexpr double kValueMax = 1e200;

absl::Status Invalid(std::string_view where, const std::string& what) {
  return InvalidError("POSITIONS_INVALID", std::string(where) + ": " + what);
}

// Whether a replay can produce `value` for the output; infinity is possible where a probability can
// be zero.
bool Possible(F64Output output, double value) {
  if (std::isnan(value) || (std::isfinite(value) && std::fabs(value) > kValueMax)) return false;
  switch (output) {
    case F64Output::kDeltaP:
      return value >= -1.001 && value <= 1.001;
    case F64Output::kAcceptRate:
      return value >= -0.001 && value <= 1.001;
    case F64Output::kKlRefCand:
    case F64Output::kKlCandRef:
    case F64Output::kJsdBits:
      return value >= 0;
    case F64Output::kEntropyRef:
    case F64Output::kEntropyCand:
    case F64Output::kNllRef:
    case F64Output::kNllCand:
      return value >= -1e-6;  // rounding can leave a certain token a hair below zero
  }
  return false;
}

// As Possible, for divergences whose float32 sums fell below zero.
bool PossibleInFloat32(F64Output output, double value) {
  const bool divergence = output == F64Output::kKlRefCand || output == F64Output::kJsdBits;
  return divergence && value >= -1e-3;
}
bool PossibleInFloat32(I32Output, int32_t) { return false; }

bool Possible(I32Output output, int32_t value) {
  const bool count = output == I32Output::kTiesRef || output == I32Output::kTiesCand;
  return value >= (count ? 1 : 0);
}

template <typename T>
std::string Bytes(std::span<const T> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

template <typename T>
absl::StatusOr<std::vector<T>> FromBytes(std::string_view bytes, std::string_view where) {
  if (bytes.size() % sizeof(T) != 0) {
    return Invalid(where, "its length of " + std::to_string(bytes.size()) +
                              " bytes is no multiple of " + std::to_string(sizeof(T)));
  }
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

using Files = std::span<const std::shared_ptr<const SafetensorsFile>>;

absl::StatusOr<const SafetensorsFile*> FindOnce(Files files, const std::string& name) {
  const SafetensorsFile* holder = nullptr;
  for (const auto& file : files) {
    if (!file->Has(name)) continue;
    if (holder != nullptr) {
      return Invalid(file->path(), "tensor " + name + " is in " + holder->path() + " too");
    }
    holder = file.get();
  }
  if (holder == nullptr) {
    const std::string where = files.empty() ? "no result file" : files.front()->path();
    return Invalid(where, "tensor " + name + " is in none of the " + std::to_string(files.size()) +
                              " result files");
  }
  return holder;
}

template <typename T>
absl::Status AppendTensor(Files files, std::string_view comparison, const ContextRows& context,
                          std::string_view output, DType dtype, std::vector<T>* out) {
  char index[32];
  std::snprintf(index, sizeof index, "%06lld", static_cast<long long>(context.index));
  const std::string name = std::string(comparison) + "|" + index + "|" + std::string(output);
  ASSAY_ASSIGN_OR_RETURN(const SafetensorsFile* file, FindOnce(files, name));
  ASSAY_ASSIGN_OR_RETURN(const TensorView tensor, file->Find(name));
  if (tensor.dtype != dtype || tensor.shape != std::vector<uint64_t>{context.rows}) {
    return Invalid(file->path(), "tensor " + name + " must be " + std::string(DTypeName(dtype)) +
                                     " [" + std::to_string(context.rows) + "]");
  }
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.data()),
                               tensor.bytes.size());
  ASSAY_ASSIGN_OR_RETURN(const std::vector<T> values, FromBytes<T>(bytes, name));
  out->insert(out->end(), values.begin(), values.end());
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadArray(const std::string& path, uint64_t positions,
                                      uint64_t element) {
  const auto expected = CheckedMul(positions, element);
  if (!expected) return Invalid(path, "too many positions");
  ASSAY_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, *expected));
  if (bytes.size() != *expected) {
    return Invalid(path, "has " + std::to_string(bytes.size()) + " bytes, " +
                             std::to_string(positions) + " positions need " +
                             std::to_string(*expected) + "; fetch the report's arrays again");
  }
  return bytes;
}

}  // namespace

absl::Status CheckPositionArrays(const PositionArrays& arrays, std::string_view where,
                                 bool float32_sums) {
  const auto check = [&](std::string_view name, const auto& values, auto output) -> absl::Status {
    if (values.size() != arrays.positions) {
      return Invalid(where, std::string(name) + " has " + std::to_string(values.size()) +
                                " values for " + std::to_string(arrays.positions) + " positions");
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (!Possible(output, values[i]) && !(float32_sums && PossibleInFloat32(output, values[i]))) {
        return Invalid(where, std::string(name) + " at position " + std::to_string(i) +
                                  " holds a value that no replay gives");
      }
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    ASSAY_RETURN_IF_ERROR(check(kF64Outputs[i], arrays.f64[i], static_cast<F64Output>(i)));
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    ASSAY_RETURN_IF_ERROR(check(kI32Outputs[i], arrays.i32[i], static_cast<I32Output>(i)));
  }
  return absl::OkStatus();
}

std::string F64Bytes(std::span<const double> values) { return Bytes(values); }
std::string I32Bytes(std::span<const int32_t> values) { return Bytes(values); }

absl::StatusOr<std::vector<double>> F64FromBytes(std::string_view bytes, std::string_view where) {
  return FromBytes<double>(bytes, where);
}
absl::StatusOr<std::vector<int32_t>> I32FromBytes(std::string_view bytes, std::string_view where) {
  return FromBytes<int32_t>(bytes, where);
}

std::string PositionFileName(F64Output output) {
  return std::string(kF64Outputs[static_cast<size_t>(output)]) + ".f64";
}
std::string PositionFileName(I32Output output) {
  return std::string(kI32Outputs[static_cast<size_t>(output)]) + ".i32";
}

absl::StatusOr<PositionArrays> AssemblePositions(Files files, std::string_view comparison,
                                                 std::span<const ContextRows> contexts) {
  PositionArrays out;
  for (const ContextRows& context : contexts) {
    for (size_t i = 0; i < kF64Outputs.size(); ++i) {
      ASSAY_RETURN_IF_ERROR(
          AppendTensor(files, comparison, context, kF64Outputs[i], DType::kF64, &out.f64[i]));
    }
    for (size_t i = 0; i < kI32Outputs.size(); ++i) {
      ASSAY_RETURN_IF_ERROR(
          AppendTensor(files, comparison, context, kI32Outputs[i], DType::kI32, &out.i32[i]));
    }
    out.positions += context.rows;
  }
  return out;
}

absl::StatusOr<PositionArrays> ReadPositionFolder(const std::string& folder, uint64_t positions) {
  PositionArrays out;
  out.positions = positions;
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    const std::string path = JoinPath(folder, PositionFileName(static_cast<F64Output>(i)));
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadArray(path, positions, sizeof(double)));
    ASSAY_ASSIGN_OR_RETURN(out.f64[i], F64FromBytes(bytes, path));
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    const std::string path = JoinPath(folder, PositionFileName(static_cast<I32Output>(i)));
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadArray(path, positions, sizeof(int32_t)));
    ASSAY_ASSIGN_OR_RETURN(out.i32[i], I32FromBytes(bytes, path));
  }
  return out;
}

}  // namespace assay
