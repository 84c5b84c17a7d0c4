#include "worker/capture/model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "storage/base/macros.h"

namespace assay::capture {
namespace {

constexpr int64_t kRowsPerBlock = 64;  // decoded at a time by one thread

class Loader {
 public:
  explicit Loader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  uint64_t bytes() const { return bytes_; }

  at::Tensor Empty(int64_t rows, int64_t columns) {
    bytes_ += uint64_t(rows) * uint64_t(columns) * sizeof(float);
    return at::empty({rows, columns}, at::kFloat);
  }

  // Rows [rows) of a matrix with `columns` columns into `out`.
  absl::Status ReadRows(const std::string& name, Range rows, int64_t columns, float* out) {
    return ForBlocks(rows, [&](Range block) {
      return checkpoint_.ReadRows(name, block.begin, block.end,
                                  out + (block.begin - rows.begin) * columns);
    });
  }

  absl::StatusOr<at::Tensor> Vector(const std::string& name, Range elements) {
    at::Tensor out = Empty(1, elements.size()).view({-1});
    ASSAY_RETURN_IF_ERROR(
        checkpoint_.ReadRows(name, elements.begin, elements.end, out.data_ptr<float>()));
    return out;
  }

  // Column pieces of a [rows, columns] matrix, each dense.
  absl::StatusOr<std::vector<at::Tensor>> ColumnPieces(const std::string& name, int64_t rows,
                                                       int64_t columns,
                                                       const std::vector<Range>& pieces) {
    std::vector<at::Tensor> out;
    std::vector<float*> data;
    for (const Range& piece : pieces) {
      out.push_back(Empty(rows, piece.size()));
      data.push_back(out.back().data_ptr<float>());
    }
    if (pieces.empty()) return out;
    ASSAY_RETURN_IF_ERROR(ForBlocks({0, rows}, [&](Range block) -> absl::Status {
      std::vector<float> whole(size_t(block.size() * columns));
      ASSAY_RETURN_IF_ERROR(checkpoint_.ReadRows(name, block.begin, block.end, whole.data()));
      for (size_t p = 0; p < pieces.size(); ++p) {
        for (int64_t r = block.begin; r < block.end; ++r) {
          const float* row = whole.data() + (r - block.begin) * columns;
          std::copy(row + pieces[p].begin, row + pieces[p].end, data[p] + r * pieces[p].size());
        }
      }
      return absl::OkStatus();
    }));
    return out;
  }

 private:
  template <typename Function>
  absl::Status ForBlocks(Range rows, const Function& function) {
    absl::Status first;
    const int64_t blocks = (rows.size() + kRowsPerBlock - 1) / kRowsPerBlock;
#pragma omp parallel for schedule(dynamic)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = rows.begin + b * kRowsPerBlock;
      absl::Status status = function(Range{begin, std::min(begin + kRowsPerBlock, rows.end)});
      if (status.ok()) continue;
#pragma omp critical(assay_capture_load)
      first.Update(std::move(status));
    }
    return first;
  }

  const Checkpoint& checkpoint_;
  uint64_t bytes_ = 0;
};

Range Scaled(Range range, int64_t factor) { return {range.begin * factor, range.end * factor}; }

absl::Status LoadAttention(Loader& loader, const ModelConfig& config, const RankShare& share,
                           const std::string& prefix, LayerWeights& layer) {
  const int64_t dim = config.head_dim;
  const std::pair<const char*, Range> parts[] = {{"q_proj", Scaled(share.heads, dim)},
                                                 {"k_proj", Scaled(share.kv_heads, dim)},
                                                 {"v_proj", Scaled(share.kv_heads, dim)}};
  int64_t rows = 0;
  for (const auto& [name, range] : parts) rows += range.size();
  layer.qkv = loader.Empty(rows, config.hidden);
  if (config.qkv_bias) layer.qkv_bias = loader.Empty(1, rows).view({-1});
  int64_t row = 0;
  for (const auto& [name, range] : parts) {
    const std::string tensor = prefix + "self_attn." + name;
    ASSAY_RETURN_IF_ERROR(loader.ReadRows(tensor + ".weight", range, config.hidden,
                                          layer.qkv.data_ptr<float>() + row * config.hidden));
    if (config.qkv_bias) {
      ASSAY_RETURN_IF_ERROR(
          loader.ReadRows(tensor + ".bias", range, 1, layer.qkv_bias.data_ptr<float>() + row));
    }
    row += range.size();
  }
  if (config.qk_norm) {
    ASSAY_ASSIGN_OR_RETURN(layer.q_norm,
                           loader.Vector(prefix + "self_attn.q_norm.weight", {0, dim}));
    ASSAY_ASSIGN_OR_RETURN(layer.k_norm,
                           loader.Vector(prefix + "self_attn.k_norm.weight", {0, dim}));
  }
  std::vector<Range> pieces;
  const int64_t width = share.heads_per_piece * dim;
  for (int64_t p = share.own_attention.begin; p < share.own_attention.end; ++p) {
    pieces.push_back({p * width, (p + 1) * width});
  }
  const std::string output = prefix + "self_attn.o_proj";
  ASSAY_ASSIGN_OR_RETURN(
      layer.o, loader.ColumnPieces(output + ".weight", config.hidden, config.heads * dim, pieces));
  if (config.o_bias) {
    ASSAY_ASSIGN_OR_RETURN(layer.o_bias, loader.Vector(output + ".bias", {0, config.hidden}));
  }
  return absl::OkStatus();
}

absl::Status LoadMlp(Loader& loader, const ModelConfig& config, const RankShare& share,
                     const std::string& prefix, LayerWeights& layer) {
  const std::string gate = prefix + "mlp.gate_proj", up = prefix + "mlp.up_proj",
                    down = prefix + "mlp.down_proj";
  for (const Range& piece : share.ffn_pieces) {
    layer.gate_up.push_back(loader.Empty(2 * piece.size(), config.hidden));
    float* const data = layer.gate_up.back().data_ptr<float>();
    ASSAY_RETURN_IF_ERROR(loader.ReadRows(gate + ".weight", piece, config.hidden, data));
    ASSAY_RETURN_IF_ERROR(
        loader.ReadRows(up + ".weight", piece, config.hidden, data + piece.size() * config.hidden));
  }
  ASSAY_ASSIGN_OR_RETURN(layer.down, loader.ColumnPieces(down + ".weight", config.hidden,
                                                         config.ffn, share.ffn_pieces));
  if (config.mlp_bias) {
    ASSAY_ASSIGN_OR_RETURN(layer.gate_bias, loader.Vector(gate + ".bias", share.ffn));
    ASSAY_ASSIGN_OR_RETURN(layer.up_bias, loader.Vector(up + ".bias", share.ffn));
    ASSAY_ASSIGN_OR_RETURN(layer.down_bias, loader.Vector(down + ".bias", {0, config.hidden}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelWeights> LoadWeights(const Checkpoint& checkpoint, const RankShare& share) {
  const ModelConfig& config = checkpoint.config();
  const Range all{0, config.hidden};
  Loader loader(checkpoint);
  ModelWeights weights;
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string prefix = "model.layers." + std::to_string(l) + ".";
    LayerWeights layer;
    ASSAY_ASSIGN_OR_RETURN(layer.input_norm, loader.Vector(prefix + "input_layernorm.weight", all));
    ASSAY_ASSIGN_OR_RETURN(layer.post_norm,
                           loader.Vector(prefix + "post_attention_layernorm.weight", all));
    ASSAY_RETURN_IF_ERROR(LoadAttention(loader, config, share, prefix, layer));
    ASSAY_RETURN_IF_ERROR(LoadMlp(loader, config, share, prefix, layer));
    weights.layers.push_back(std::move(layer));
  }
  ASSAY_ASSIGN_OR_RETURN(weights.final_norm, loader.Vector("model.norm.weight", all));
  weights.bytes = loader.bytes();
  return weights;
}

}  // namespace assay::capture
