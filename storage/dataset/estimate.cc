// The published estimator: float32 products, then a float64 softmax over the whole stored
// vocabulary.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/f16.h"
#include "storage/base/files.h"
#include "storage/base/for_each_index.h"
#include "storage/base/status.h"
#include "storage/dataset/compare.h"
#include "storage/dataset/logits.h"
#include "storage/dataset/tree.h"
#include "storage/format/safetensors.h"

namespace assay {
namespace {

constexpr uint64_t kTileColumns =
    256;  // of a transposed piece of the head, so that products run along columns

absl::Status Bad(const char* code, const std::string& message) {
  return InvalidError(code, message);
}

using Matrix = LogitMatrix;

template <typename T>
T LoadAt(std::span<const uint8_t> bytes, uint64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

// Widened to float32, which F64 logits do not survive: they are refused.
absl::StatusOr<Matrix> ReadMatrix(const std::string& path, const std::vector<std::string>& keys,
                                  const Json* expected_digest) {
  const auto file = SafetensorsFile::Open(path);
  if (!file.ok()) return Bad("bad_tensor_file", MessageOf(file.status()));
  for (const std::string& key : keys) {
    const auto tensor = (*file)->Find(key);
    if (!tensor.ok()) continue;
    if (tensor->shape.size() != 2)
      return Bad("bad_tensor_file", path + ": " + key + " is no matrix");
    if (expected_digest != nullptr &&
        *expected_digest != Sha256Hex({reinterpret_cast<const char*>(tensor->bytes.data()),
                                       tensor->bytes.size()})) {
      return Bad("head_mismatch", path + ": not the head that the gates chose");
    }
    Matrix out{tensor->shape[0], tensor->shape[1], {}};
    out.values.resize(tensor->elements());
    for (uint64_t i = 0; i < out.values.size(); ++i) {
      if (tensor->dtype == DType::kBF16) {
        out.values[i] = Bf16ToFloat(LoadAt<uint16_t>(tensor->bytes, i));
      } else if (tensor->dtype == DType::kF16) {
        out.values[i] = F16ToFloat(LoadAt<uint16_t>(tensor->bytes, i));
      } else if (tensor->dtype == DType::kF32) {
        out.values[i] = LoadAt<float>(tensor->bytes, i);
      } else {
        return Bad("bad_tensor_file", path + ": " + key + " is neither BF16, F16 nor F32");
      }
    }
    return out;
  }
  return Bad("head_missing", path + ": no tensor " + keys.front());
}

// One side: its records, and the head when they are hidden states.
struct Side {
  const DatasetDocuments* documents;
  std::map<int64_t, const Json*> records;
  bool hidden = false;
  std::shared_ptr<const Matrix> head;
};

// out[rows][columns] = hidden * head^T for columns [begin, end), float32 in the order of the inner
// dimension.
void Multiply(const Matrix& hidden, uint64_t first, uint64_t rows, const Matrix& head,
              uint64_t begin, uint64_t end, std::vector<float>* out) {
  std::vector<float> tile(head.columns * kTileColumns);
  for (uint64_t at = begin; at < end; at += kTileColumns) {
    const uint64_t count = std::min(kTileColumns, end - at);
    for (uint64_t v = 0; v < count; ++v) {
      for (uint64_t k = 0; k < head.columns; ++k)
        tile[k * kTileColumns + v] = head.values[(at + v) * head.columns + k];
    }
    for (uint64_t r = 0; r < rows; ++r) {
      float sums[kTileColumns] = {};
      const float* row = hidden.values.data() + (first + r) * hidden.columns;
      for (uint64_t k = 0; k < head.columns; ++k) {
        const float factor = row[k];
        const float* piece = tile.data() + k * kTileColumns;
        for (uint64_t v = 0; v < kTileColumns; ++v) sums[v] += factor * piece[v];
      }
      std::copy_n(sums, count, out->data() + r * head.rows + at);
    }
  }
}

// Log-probabilities of one row of logits in float64; the index of the first largest logit.
absl::StatusOr<size_t> LogSoftmax(std::span<const float> logits, std::vector<double>* out) {
  size_t top = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i]))
      return Bad("non_finite", "a logit is not finite, column " + std::to_string(i));
    if (logits[i] > logits[top]) top = i;
  }
  const double max = logits[top];
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    (*out)[i] = static_cast<double>(logits[i]) - max;
    sum += std::exp((*out)[i]);
  }
  const double log_sum = std::log(sum);
  for (double& value : *out) value -= log_sum;
  return top;
}

class Estimator {
 public:
  Estimator(const DatasetDocuments& reference, const DatasetDocuments& candidate,
            const DatasetRelation& relation, const DatasetCompareOptions& options)
      : relation_(relation), options_(options) {
    for (const auto& [side, documents] : {std::pair(&a_, &reference), {&b_, &candidate}}) {
      side->documents = documents;
      side->hidden = DatasetMember(documents->manifest, {"capture", "form"}) == "hidden";
      for (const Json& record : DatasetMember(documents->capture, {"records"})) {
        if (const auto index = DatasetInt(DatasetMember(record, {"index"})))
          side->records[*index] = &record;
      }
    }
  }

  absl::StatusOr<std::vector<DatasetWindow>> Run() {
    if (options_.vocab_chunk && *options_.vocab_chunk < 1)
      return Bad("bad_vocab_chunk", "columns at a time must be 1 or more");
    if (options_.position_block < 1)
      return Bad("bad_position_block", "rows at a time must be 1 or more");
    if (options_.own_heads && options_.head)
      return Bad("head_mismatch", "own heads and a given head exclude each other");
    if (absl::Status status = LoadHeads(); !status.ok()) return status;
    std::vector<DatasetWindow> windows(relation_.indices.size());
    const auto count = static_cast<int64_t>(windows.size());
    const absl::Status status = ForEachIndex(count, options_.threads, [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      return Window(relation_.indices[at], &windows[at]);
    });
    if (!status.ok()) return status;
    return windows;
  }

 private:
  absl::StatusOr<std::shared_ptr<const Matrix>> OpenHead(const std::string& path,
                                                         const Side& owner) {
    const Json& head = DatasetMember(owner.documents->manifest, {"head"});
    auto matrix = ReadMatrix(
        path, {DatasetText(DatasetMember(head, {"tensor_key"})), "lm_head.weight", "weight"},
        &DatasetMember(head, {"tensor_content_sha256"}));
    if (!matrix.ok()) return matrix.status();
    return std::make_shared<const Matrix>(std::move(*matrix));
  }

  static std::optional<std::string> Payload(const Side& side) {
    const Json& file = DatasetMember(side.documents->manifest, {"head", "file"});
    if (!file.is_string()) return std::nullopt;
    return FindInDataset(side.documents->root, file.get<std::string>());
  }

  absl::Status LoadHeads() {
    if (!a_.hidden && !b_.hidden) return absl::OkStatus();
    if (options_.own_heads) {
      for (Side* side : {&a_, &b_}) {
        if (!side->hidden) continue;
        const auto path = Payload(*side);
        if (!path) return Bad("head_missing", side->documents->root + " ships no head payload");
        auto head = OpenHead(*path, *side);
        if (!head.ok()) return head.status();
        side->head = *head;
      }
      return absl::OkStatus();
    }
    // The reference's head, from whoever ships a payload with its digest.
    std::optional<std::string> path = options_.head;
    if (!path) path = Payload(a_);
    if (!path && DatasetMember(a_.documents->manifest, {"head", "tensor_content_sha256"}) ==
                     DatasetMember(b_.documents->manifest, {"head", "tensor_content_sha256"})) {
      path = Payload(b_);
    }
    if (!path)
      return Bad("head_missing", "neither dataset ships the head's payload; give a head file");
    auto head = OpenHead(*path, a_);
    if (!head.ok()) return head.status();
    a_.head = b_.head = *head;
    return absl::OkStatus();
  }

  absl::StatusOr<Matrix> Tensor(const Side& side, int64_t index) const {
    const Json& record = *side.records.at(index);
    const auto path =
        FindInDataset(side.documents->root,
                      ResolveDatasetPath(DatasetText(DatasetMember(record, {"file"})), "capture"));
    if (!path) return Bad("incomplete_scan", "record " + std::to_string(index) + " has no file");
    return ReadMatrix(*path, {DatasetText(DatasetMember(record, {"key"}))}, nullptr);
  }

  // Logits of `rows` rows from `first`, [rows, vocabulary].
  static uint64_t Vocabulary(const Side& side, const Matrix& tensor) {
    return side.hidden ? side.head->rows : tensor.columns;
  }
  void Logits(const Side& side, const Matrix& tensor, uint64_t first, uint64_t rows,
              std::vector<float>* out) const {
    if (!side.hidden) {
      std::copy_n(tensor.values.data() + first * tensor.columns, rows * tensor.columns,
                  out->data());
      return;
    }
    const uint64_t vocab = side.head->rows;
    const uint64_t chunk =
        options_.vocab_chunk ? static_cast<uint64_t>(*options_.vocab_chunk) : vocab;
    for (uint64_t begin = 0; begin < vocab; begin += chunk) {
      Multiply(tensor, first, rows, *side.head, begin, std::min(vocab, begin + chunk), out);
    }
  }

  absl::Status Window(int64_t index, DatasetWindow* out) const {
    auto a = Tensor(a_, index), b = Tensor(b_, index);
    if (!a.ok()) return a.status();
    if (!b.ok()) return b.status();
    const uint64_t vocab = Vocabulary(a_, *a);
    if (a->rows != b->rows || vocab != Vocabulary(b_, *b) ||
        (a_.hidden && a->columns != a_.head->columns) ||
        (b_.hidden && b->columns != b_.head->columns)) {
      return Bad("geometry_mismatch",
                 "record " + std::to_string(index) + ": the tensors and heads do not fit");
    }
    const Json& record = *a_.records.at(index);
    out->index = index;
    out->window_id = DatasetText(DatasetMember(record, {"window_id"}));
    out->domain = DatasetString(DatasetMember(record, {"domain"})).value_or("");
    out->stratum = DatasetString(DatasetMember(record, {"allocation_stratum"})).value_or("");
    const auto block = static_cast<uint64_t>(options_.position_block);
    std::vector<double> p(vocab), q(vocab);
    for (uint64_t first = 0; first < a->rows; first += block) {
      const uint64_t rows = std::min(block, a->rows - first);
      std::vector<float> x(rows * vocab), y(rows * vocab);
      Logits(a_, *a, first, rows, &x);
      Logits(b_, *b, first, rows, &y);
      for (uint64_t r = 0; r < rows; ++r) {
        const auto top_a = LogSoftmax({x.data() + r * vocab, vocab}, &p);
        const auto top_b = LogSoftmax({y.data() + r * vocab, vocab}, &q);
        if (!top_a.ok()) return top_a.status();
        if (!top_b.ok()) return top_b.status();
        double sum = 0;
        for (uint64_t v = 0; v < vocab; ++v) sum += std::exp(p[v]) * (p[v] - q[v]);
        if (!std::isfinite(sum)) return Bad("non_finite", "a divergence is not finite");
        out->kl.push_back(sum);
        if (*top_a == *top_b) ++out->top1_matches;
      }
    }
    return absl::OkStatus();
  }

  const DatasetRelation& relation_;
  const DatasetCompareOptions& options_;
  Side a_, b_;
};

}  // namespace

absl::StatusOr<LogitMatrix> ReadDatasetHead(const std::string& path, const std::string& tensor) {
  return ReadMatrix(path, {tensor, "lm_head.weight", "weight"}, nullptr);
}

absl::StatusOr<LogitMatrix> DatasetLogits(const std::string& hidden_path, const LogitMatrix& head) {
  auto hidden = ReadMatrix(hidden_path, {"hidden_states"}, nullptr);
  if (!hidden.ok()) return hidden.status();
  if (hidden->columns != head.columns)
    return Bad("geometry_mismatch", hidden_path + ": the head takes another number of values");
  LogitMatrix out{hidden->rows, head.rows, {}};
  out.values.resize(out.rows * out.columns);
  Multiply(*hidden, 0, hidden->rows, head, 0, head.rows, &out.values);
  return out;
}

DatasetEstimate EstimateDatasets(const DatasetDocuments& reference,
                                 const DatasetDocuments& candidate, const DatasetRelation& relation,
                                 const DatasetCompareOptions& options) {
  DatasetEstimate out;
  auto windows = Estimator(reference, candidate, relation, options).Run();
  if (windows.ok()) {
    out.windows = std::move(*windows);
  } else {
    out.refusal = {"compute", ReasonOf(windows.status()), MessageOf(windows.status())};
  }
  return out;
}

}  // namespace assay
