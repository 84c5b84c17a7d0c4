#include "worker/capture/decoder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <omp.h>
#include <torch/version.h>

#include <algorithm>
#include <utility>

#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/capture/exchange.h"
#include "worker/capture/kernels.h"
#include "worker/capture/matmul.h"
#include "worker/capture/model.h"
#include "worker/capture/pieces.h"
#include "worker/capture/rope.h"
#include "worker/capture/self_test.h"

namespace assay::capture {
namespace {

const float* DataOrNull(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<float>() : nullptr;
}

std::span<float> Span(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), size_t(tensor.numel())};
}

// Keys that some query of [start, start + queries) sees: all up to the last query, or the last
// `window` of each, itself included (arch-qwen-llama 1.6).
Range SeenBy(int64_t start, int64_t queries, int64_t window) {
  return {window == 0 ? 0 : std::max<int64_t>(0, start - window + 1), start + queries};
}

// Buffers of one batch shape, kept between layers and batches: fresh pages cost more than the
// element-wise work done in them.
struct Workspace {
  BatchShape shape;
  at::Tensor x, qkv, heads, scores, mixed, attention, gate_up, act, partial;
};

class DenseDecoder final : public Decoder {
 public:
  DenseDecoder(std::unique_ptr<Checkpoint> checkpoint, RankShare share, ModelWeights weights,
               int rank, int size)
      : checkpoint_(std::move(checkpoint)),
        config_(checkpoint_->config()),
        share_(std::move(share)),
        weights_(std::move(weights)),
        frequencies_(RopeFrequencies(config_)),
        rank_(rank),
        size_(size) {
    for (int r = 0; r < size; ++r) {
      attention_counts_.push_back(PartOf(share_.attention_pieces, size, r).size());
      ffn_counts_.push_back(PartOf(kPieces, size, r).size());
    }
  }

  const ModelConfig& config() const override { return config_; }
  uint64_t weight_bytes() const override { return weights_.bytes; }
  uint64_t multiply_adds() const override { return matmul_.multiply_adds(); }
  double product_seconds() const override { return matmul_.seconds(); }

  absl::Status Run(std::span<const CaptureContext* const> contexts, Collective& collective,
                   const std::set<TapPoint>& taps, const TapSink& sink,
                   std::vector<uint16_t>* hidden) override {
    try {
      return RunLayers(contexts, collective, taps, sink, hidden);
    } catch (const std::exception& e) {
      return InternalError("CAPTURE_FAILED", std::string("forward pass: ") + e.what());
    }
  }

 private:
  absl::Status RunLayers(std::span<const CaptureContext* const> contexts, Collective& collective,
                         const std::set<TapPoint>& taps, const TapSink& sink,
                         std::vector<uint16_t>* hidden);
  absl::StatusOr<at::Tensor> Embed(std::span<const CaptureContext* const> contexts, Range rows);
  absl::Status Attention(const LayerWeights& layer, int64_t window);
  absl::Status AttendGroup(const HeadGroup& group, const float* keys, const float* values,
                           int64_t window);
  absl::Status Mlp(const LayerWeights& layer);
  absl::Status Linear(const float* x, const at::Tensor& w, float* out);
  std::vector<HeadSlot> ProjectionSlots(const LayerWeights& layer);
  std::vector<HeadSlot> QuerySlots(float* base, bool rotate) const;
  absl::Status CheckSeen(int64_t tokens);
  void Prepare(const BatchShape& shape);

  std::unique_ptr<Checkpoint> checkpoint_;
  const ModelConfig& config_;
  RankShare share_;
  ModelWeights weights_;
  std::vector<float> frequencies_;
  RopeTable rope_;
  std::set<int64_t> checked_;  // numbers of keys whose products were found invariant
  std::vector<int64_t> attention_counts_, ffn_counts_;  // pieces of each rank
  int rank_, size_;
  Matmul matmul_;
  Workspace space_;
};

// The inner size of the product with the values is the number of keys that a block of queries sees,
// so each such number is proved once, like the model's own sizes.
absl::Status DenseDecoder::CheckSeen(int64_t tokens) {
  const std::set<int64_t> windows(config_.windows.begin(), config_.windows.end());
  for (const int64_t window : windows) {
    for (int64_t start = 0; start < tokens; start += kQueryBlock) {
      const Range seen = SeenBy(start, std::min(kQueryBlock, tokens - start), window);
      if (checked_.contains(seen.size())) continue;
      ASSAY_RETURN_IF_ERROR(CheckProductInvariance(seen.size()));
      checked_.insert(seen.size());
    }
  }
  return absl::OkStatus();
}

void DenseDecoder::Prepare(const BatchShape& shape) {
  if (rope_.positions < shape.tokens)
    rope_ = MakeRopeTable(frequencies_, config_.rope.attention_factor, shape.tokens);
  if (space_.shape.contexts == shape.contexts && space_.shape.tokens == shape.tokens) return;
  space_ = {};
  space_.shape = shape;
  const int64_t rows = shape.rows(), dim = config_.head_dim;
  const auto empty = [](int64_t r, int64_t c) { return at::empty({r, c}, at::kFloat); };
  space_.x = empty(rows, config_.hidden);
  space_.qkv = empty(rows, (share_.heads.size() + 2 * share_.kv_heads.size()) * dim);
  space_.heads = at::empty_like(space_.qkv);
  int64_t members = 0;
  for (const HeadGroup& group : share_.groups) members = std::max(members, group.heads.size());
  space_.scores =
      empty(shape.contexts * members * std::min(kQueryBlock, shape.tokens), shape.tokens);
  space_.mixed = empty(rows, share_.heads.size() * dim);
  space_.attention = empty(rows, share_.heads_per_piece * dim);
  int64_t widest = 0;
  for (const Range& piece : share_.ffn_pieces) widest = std::max(widest, piece.size());
  space_.gate_up = empty(rows, 2 * widest);
  space_.act = empty(rows, widest);
  const int64_t pieces = std::max(share_.own_attention.size(), share_.own_ffn.size());
  space_.partial = empty(pieces * rows, config_.hidden);
}

absl::StatusOr<at::Tensor> DenseDecoder::Embed(std::span<const CaptureContext* const> contexts,
                                               Range rows) {
  at::Tensor out = at::empty({rows.size(), config_.hidden}, at::kFloat);
  float* data = out.data_ptr<float>();
  const int64_t tokens = space_.shape.tokens;
  for (int64_t row = rows.begin; row < rows.end; ++row, data += config_.hidden) {
    const int64_t token = contexts[row / tokens]->tokens[row % tokens];
    ASSAY_RETURN_IF_ERROR(
        checkpoint_->ReadRows("model.embed_tokens.weight", token, token + 1, data));
  }
  return out;
}

// out [rows, w rows] = x [rows, w columns] x w^T, over all rows of the batch.
absl::Status DenseDecoder::Linear(const float* x, const at::Tensor& w, float* out) {
  MatmulShape shape{.m = space_.shape.rows(), .n = w.size(0), .k = w.size(1)};
  shape.a_stride = w.size(1);  // dense: oneDNN 2.6 has another kernel for strided inputs
  shape.w_stride = w.size(1);
  shape.c_stride = w.size(0);
  return matmul_.Run(shape, x, w.data_ptr<float>(), out);
}

std::vector<HeadSlot> DenseDecoder::QuerySlots(float* base, bool rotate) const {
  std::vector<HeadSlot> slots;
  for (const HeadGroup& group : share_.groups) {
    for (int64_t head = group.heads.begin; head < group.heads.end; ++head) {
      HeadSlot slot;
      slot.base =
          base + (group.heads.begin - share_.heads.begin) * space_.shape.rows() * config_.head_dim;
      slot.members = group.heads.size();
      slot.member = head - group.heads.begin;
      slot.block = kQueryBlock;
      slot.column = (head - share_.heads.begin) * config_.head_dim;
      slot.rotate = rotate;
      slots.push_back(slot);
    }
  }
  return slots;
}

// Queries, keys and values one after another in space_.heads, as the columns of space_.qkv are.
std::vector<HeadSlot> DenseDecoder::ProjectionSlots(const LayerWeights& layer) {
  float* const base = space_.heads.data_ptr<float>();
  std::vector<HeadSlot> slots = QuerySlots(base, true);
  for (HeadSlot& slot : slots) slot.norm = DataOrNull(layer.q_norm);
  const int64_t kv = share_.kv_heads.size();
  for (int64_t i = 0; i < 2 * kv; ++i) {
    HeadSlot slot;
    slot.column = (share_.heads.size() + i) * config_.head_dim;
    slot.base = base + slot.column * space_.shape.rows();
    slot.block = space_.shape.tokens;
    slot.rotate = i < kv;
    if (i < kv) slot.norm = DataOrNull(layer.k_norm);
    slots.push_back(slot);
  }
  return slots;
}

// Attention of the query heads of one key/value head: all contexts and heads of a block of
// queries in one product.
absl::Status DenseDecoder::AttendGroup(const HeadGroup& group, const float* keys,
                                       const float* values, int64_t window) {
  const BatchShape& shape = space_.shape;
  const int64_t dim = config_.head_dim, members = group.heads.size();
  const float scale = float(1.0 / std::sqrt(double(dim)));
  float* const scores = space_.scores.data_ptr<float>();
  const int64_t group_offset = (group.heads.begin - share_.heads.begin) * shape.rows() * dim;
  for (int64_t start = 0; start < shape.tokens; start += kQueryBlock) {
    const int64_t queries = std::min(kQueryBlock, shape.tokens - start);
    const Range seen = SeenBy(start, queries, window);
    const int64_t offset = group_offset + shape.contexts * members * dim * start;
    MatmulShape score{.batch = shape.contexts, .m = members * queries, .n = seen.size(), .k = dim};
    score.a_stride = score.w_stride = dim;
    score.c_stride = seen.size();
    score.a_batch = score.m * dim;
    score.w_batch = shape.tokens * dim;
    score.c_batch = score.m * seen.size();
    ASSAY_RETURN_IF_ERROR(matmul_.Run(score, space_.heads.data_ptr<float>() + offset,
                                      keys + seen.begin * dim, scores));
    CausalSoftmaxRows(scores, shape.contexts * score.m, seen.size(), queries, start - seen.begin,
                      window, scale);
    MatmulShape mix{.batch = shape.contexts, .m = score.m, .n = dim, .k = seen.size()};
    mix.a_stride = seen.size();
    mix.w_stride = mix.c_stride = dim;
    mix.a_batch = score.c_batch;
    mix.w_batch = score.w_batch;
    mix.c_batch = score.a_batch;
    mix.w_transposed = false;
    ASSAY_RETURN_IF_ERROR(matmul_.Run(mix, scores, values + seen.begin * dim,
                                      space_.mixed.data_ptr<float>() + offset));
  }
  return absl::OkStatus();
}

// space_.x -> space_.partial: one [rows, hidden] product per own attention piece.
absl::Status DenseDecoder::Attention(const LayerWeights& layer, int64_t window) {
  const int64_t rows = space_.shape.rows(), dim = config_.head_dim;
  if (share_.heads.size() == 0) return absl::OkStatus();
  ASSAY_RETURN_IF_ERROR(
      Linear(space_.x.data_ptr<float>(), layer.qkv, space_.qkv.data_ptr<float>()));
  SplitHeads(space_.qkv.data_ptr<float>(), space_.qkv.size(1), DataOrNull(layer.qkv_bias),
             config_.rms_eps, rope_.cos.data(), rope_.sin.data(), space_.shape, dim,
             ProjectionSlots(layer));
  const float* const keys = space_.heads.data_ptr<float>() + share_.heads.size() * rows * dim;
  const float* const values = keys + share_.kv_heads.size() * rows * dim;
  for (const HeadGroup& group : share_.groups) {
    const int64_t offset = (group.kv_head - share_.kv_heads.begin) * rows * dim;
    ASSAY_RETURN_IF_ERROR(AttendGroup(group, keys + offset, values + offset, window));
  }
  const std::vector<HeadSlot> mixed = QuerySlots(space_.mixed.data_ptr<float>(), false);
  float* const in = space_.attention.data_ptr<float>();
  float* out = space_.partial.data_ptr<float>();
  for (size_t p = 0; p < layer.o.size(); ++p) {
    const int64_t first = int64_t(p) * share_.heads_per_piece, width = share_.heads_per_piece * dim;
    std::vector<HeadSlot> slots(mixed.begin() + first,
                                mixed.begin() + first + share_.heads_per_piece);
    for (HeadSlot& slot : slots) slot.column -= first * dim;
    MergeHeads(slots, space_.shape, dim, width, in);
    ASSAY_RETURN_IF_ERROR(Linear(in, layer.o[p], out));
    out += rows * config_.hidden;
  }
  return absl::OkStatus();
}

// As Attention, for the MLP: piece by piece, so that what a piece makes is still in the cache when
// it is used, and the inputs of its products are dense.
absl::Status DenseDecoder::Mlp(const LayerWeights& layer) {
  const int64_t rows = space_.shape.rows();
  float* const gate_up = space_.gate_up.data_ptr<float>();
  float* const act = space_.act.data_ptr<float>();
  float* out = space_.partial.data_ptr<float>();
  int64_t column = 0;  // of this rank's part of the intermediate size
  for (size_t p = 0; p < layer.down.size(); ++p) {
    const int64_t width = layer.down[p].size(1);
    ASSAY_RETURN_IF_ERROR(Linear(space_.x.data_ptr<float>(), layer.gate_up[p], gate_up));
    const bool biased = layer.gate_bias.defined();
    SwiGluRows(gate_up, biased ? layer.gate_bias.data_ptr<float>() + column : nullptr,
               biased ? layer.up_bias.data_ptr<float>() + column : nullptr, rows, width, act);
    ASSAY_RETURN_IF_ERROR(Linear(act, layer.down[p], out));
    column += width;
    out += rows * config_.hidden;
  }
  return absl::OkStatus();
}

absl::Status DenseDecoder::RunLayers(std::span<const CaptureContext* const> contexts,
                                     Collective& collective, const std::set<TapPoint>& taps,
                                     const TapSink& sink, std::vector<uint16_t>* hidden) {
  const BatchShape shape{int64_t(contexts.size()), int64_t(contexts[0]->tokens.size())};
  ASSAY_RETURN_IF_ERROR(CheckSeen(shape.tokens));
  Prepare(shape);
  TokenExchange exchange(collective, shape.rows(), config_.hidden);
  ASSAY_ASSIGN_OR_RETURN(at::Tensor stream, Embed(contexts, exchange.own()));
  at::Tensor normed = at::empty_like(stream), delta = at::empty_like(stream);
  const auto tap = [&](TapKind kind, int64_t layer, const at::Tensor& rows) -> absl::Status {
    const TapPoint point{kind, layer};
    if (!taps.contains(point)) return absl::OkStatus();
    std::vector<float> all(size_t(shape.rows() * config_.hidden));
    ASSAY_RETURN_IF_ERROR(exchange.Gather(Span(rows), all));
    return rank_ == 0 ? sink(point, all) : absl::OkStatus();
  };
  const auto normalise = [&](const at::Tensor& weight) {
    RmsNormRows(stream.data_ptr<float>(), weight.data_ptr<float>(), config_.rms_eps, stream.size(0),
                config_.hidden, normed.data_ptr<float>());
  };
  ASSAY_RETURN_IF_ERROR(tap(TapKind::kEmbedding, 0, stream));
  for (int64_t l = 0; l < config_.layers; ++l) {
    const LayerWeights& layer = weights_.layers[l];
    normalise(layer.input_norm);
    ASSAY_RETURN_IF_ERROR(exchange.Gather(Span(normed), Span(space_.x)));
    ASSAY_RETURN_IF_ERROR(Attention(layer, config_.windows[l]));
    ASSAY_RETURN_IF_ERROR(exchange.SumPieces(space_.partial.data_ptr<float>(), attention_counts_,
                                             DataOrNull(layer.o_bias), Span(delta)));
    ASSAY_RETURN_IF_ERROR(tap(TapKind::kAttention, l, delta));
    stream.add_(delta);
    normalise(layer.post_norm);
    ASSAY_RETURN_IF_ERROR(exchange.Gather(Span(normed), Span(space_.x)));
    ASSAY_RETURN_IF_ERROR(Mlp(layer));
    ASSAY_RETURN_IF_ERROR(exchange.SumPieces(space_.partial.data_ptr<float>(), ffn_counts_,
                                             DataOrNull(layer.down_bias), Span(delta)));
    ASSAY_RETURN_IF_ERROR(tap(TapKind::kMlp, l, delta));
    stream.add_(delta);
    ASSAY_RETURN_IF_ERROR(tap(TapKind::kResidual, l, stream));
  }
  normalise(weights_.final_norm);
  ASSAY_RETURN_IF_ERROR(tap(TapKind::kFinalNorm, 0, normed));
  const at::Tensor rounded = normed.to(at::kBFloat16);  // nearest even
  const auto* bits = reinterpret_cast<const uint16_t*>(rounded.data_ptr<at::BFloat16>());
  hidden->resize(size_t(shape.rows() * config_.hidden));
  return exchange.Gather(std::span(bits, size_t(rounded.numel())), std::span(*hidden));
}

// The inner sizes of this model's products must be invariant too, not only those of the self-test.
absl::Status CheckSizes(const ModelConfig& config, const RankShare& share) {
  std::set<int64_t> sizes{config.hidden, config.head_dim, share.heads_per_piece * config.head_dim};
  for (int64_t piece = 0; piece < kPieces; ++piece) {
    sizes.insert(PartOf(config.ffn, kPieces, piece).size());
  }
  for (int64_t k : sizes) {
    if (k > 0) ASSAY_RETURN_IF_ERROR(CheckProductInvariance(k));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Load(const std::string& path,
                                                       const std::string& transform, int rank,
                                                       int size) {
  try {
    ASSAY_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                           Checkpoint::Open(path, transform));
    const RankShare share = ShareOf(checkpoint->config(), rank, size);
    ASSAY_RETURN_IF_ERROR(CheckSizes(checkpoint->config(), share));
    ASSAY_ASSIGN_OR_RETURN(ModelWeights weights, LoadWeights(*checkpoint, share));
    return std::make_unique<DenseDecoder>(std::move(checkpoint), share, std::move(weights), rank,
                                          size);
  } catch (const std::exception& e) {
    return InternalError("CAPTURE_FAILED", "loading " + path + ": " + e.what());
  }
}

std::string LibtorchVersion() { return TORCH_VERSION; }

void SetComputeThreads(int threads) {
  at::set_num_threads(threads);
  omp_set_num_threads(threads);
}

}  // namespace assay::capture
