#include "worker/capture/pieces.h"

#include <algorithm>

namespace assay::capture {

RankShare ShareOf(const ModelConfig& config, int rank, int size) {
  RankShare share;
  share.attention_pieces = config.heads % kPieces == 0 ? kPieces : config.heads;
  share.heads_per_piece = config.heads / share.attention_pieces;
  share.own_attention = PartOf(share.attention_pieces, size, rank);
  share.heads = {share.own_attention.begin * share.heads_per_piece,
                 share.own_attention.end * share.heads_per_piece};
  const int64_t per_kv = config.heads / config.kv_heads;
  for (int64_t head = share.heads.begin; head < share.heads.end;) {
    const int64_t kv_head = head / per_kv;
    const int64_t end = std::min(share.heads.end, (kv_head + 1) * per_kv);
    share.groups.push_back({kv_head, {head, end}});
    head = end;
  }
  if (!share.groups.empty()) {
    share.kv_heads = {share.groups.front().kv_head, share.groups.back().kv_head + 1};
  }
  share.own_ffn = PartOf(kPieces, size, rank);
  for (int64_t piece = share.own_ffn.begin; piece < share.own_ffn.end; ++piece) {
    share.ffn_pieces.push_back(PartOf(config.ffn, kPieces, piece));
  }
  share.ffn = {share.ffn_pieces.front().begin, share.ffn_pieces.back().end};
  return share;
}

}  // namespace assay::capture
