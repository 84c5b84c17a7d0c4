#include "storage/db/chain_walk.h"

#include <span>

#include "storage/base/digest.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/chain.h"

namespace assay {

std::string ChainWalk::hash_hex() const {
  return HexOf(std::span(reinterpret_cast<const uint8_t*>(hash_.data()), hash_.size()));
}

absl::Status ChainWalk::Next(std::string_view stored) {
  ASSAY_ASSIGN_OR_RETURN(const ChainLink link,
                         DecodeLink(stored, dir_ + ": link " + std::to_string(seq_ + 1)));
  ASSAY_RETURN_IF_ERROR(Annotate(CheckLink(link, seq_, hash_), dir_));
  seq_ = link.seq;
  hash_ = link.hash;
  if (anchor_ && seq_ == anchor_->seq) anchored_hash_ = hash_hex();
  return absl::OkStatus();
}

AnchorVerdict ChainWalk::Finish() const {
  const auto damaged = [&](AnchorState state, const std::string& what) {
    return AnchorVerdict{state, DataLossError("STORE_DAMAGED", dir_ + ": " + what)};
  };
  const std::string last = std::to_string(seq_);
  if (!anchor_) {
    if (seq_ <= 1) return {};  // a crash before the very first anchor
    return damaged(AnchorState::kMissing, "the anchor file is gone but the catalogue has " + last +
                                              " batches; restore the anchor from a backup");
  }
  const std::string anchored = std::to_string(anchor_->seq);
  if (anchor_->seq > seq_) {
    return damaged(AnchorState::kAhead, "the catalogue ends with batch " + last + " but " +
                                            anchored + " were acknowledged; batches " +
                                            std::to_string(seq_ + 1) + " to " + anchored +
                                            " are lost. Restore the data folder from a backup");
  }
  if (anchored_hash_ != anchor_->hash_hex) {
    return damaged(AnchorState::kForeign,
                   "batch " + anchored +
                       " is not the one the anchor file names; the catalogue and the anchor do "
                       "not belong together. Restore both from one backup");
  }
  if (anchor_->seq + 1 < seq_) {
    return damaged(AnchorState::kBehind, "the anchor file names batch " + anchored +
                                             " but the catalogue has " + last +
                                             ": it is an old copy, and whether batches are lost "
                                             "cannot be told from it. Put the right one in place");
  }
  return {AnchorState::kAgrees, absl::OkStatus()};
}

}  // namespace assay
