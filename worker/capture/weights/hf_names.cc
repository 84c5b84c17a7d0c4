#include "worker/capture/weights/hf_names.h"

#include "storage/base/status.h"

namespace assay {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kEmbedding = "embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";

// The text model's embedding, not one of another tower ("model.visual.embed_tokens.weight").
constexpr std::string_view kBodies[] = {"model.", "", "model.language_model.",
                                        "language_model.model.", "model.text_model."};

}  // namespace

absl::Status HfNames::Look(std::string_view name, std::string_view where) {
  for (const std::string_view body : kBodies) {
    if (name.size() != body.size() + kEmbedding.size() || !name.starts_with(body) ||
        !name.ends_with(kEmbedding)) {
      continue;
    }
    if (found_) {
      return InvalidError("MODEL_UNRECOGNISED",
                          std::string(where) + ": both \"" + body_ + std::string(kEmbedding) +
                              "\" and \"" + std::string(name) +
                              "\" are there, so it holds two models; keep the files of one");
    }
    found_ = true;
    body_ = body;
  }
  if (name == "language_model.lm_head.weight") head_ = name;
  return absl::OkStatus();
}

absl::Status HfNames::Finish(std::string_view where) {
  if (found_) return absl::OkStatus();
  return NotFoundError("TENSOR_MISSING",
                       std::string(where) +
                           ": tensor \"model.embed_tokens.weight\" is missing, under this name or "
                           "with another prefix; the checkpoint is incomplete, fetch it again");
}

std::string HfNames::Stored(std::string_view hf_name) const {
  if (hf_name == kHead) return head_;
  return body_ + std::string(hf_name.substr(kModel.size()));
}

bool HfNames::Ignored(std::string_view stored_name, bool tied) const {
  if (stored_name.ends_with(".rotary_emb.inv_freq")) return true;
  if (stored_name == head_) return tied;
  // Beside a text model there is nothing else; beside the body of a larger one there is.
  const bool larger = body_ != kModel && !body_.empty();
  return larger && !stored_name.starts_with(body_);
}

}  // namespace assay
