// The gate ladder: first refusal wins, the reference before the candidate.

#include <algorithm>
#include <map>
#include <set>

#include "storage/dataset/compare.h"
#include "storage/dataset/tree.h"

namespace assay {
namespace {

const Json& Of(const DatasetVerdict& side, std::initializer_list<const char*> path) {
  return DatasetMember(side.documents.manifest, path);
}

std::map<int64_t, const Json*> Records(const DatasetVerdict& side) {
  std::map<int64_t, const Json*> out;
  for (const Json& record : DatasetMember(side.documents.capture, {"records"})) {
    if (const auto index = DatasetInt(DatasetMember(record, {"index"}))) out[*index] = &record;
  }
  return out;
}

bool EqualAndKnown(const Json& a, const Json& b) { return !a.is_null() && a == b; }

class Ladder {
 public:
  Ladder(const DatasetVerdict& reference, const DatasetVerdict& candidate,
         const DatasetCompareOptions& options)
      : a_(reference), b_(candidate), options_(options) {}

  DatasetRelation Run() {
    Seal() && Provenance() && Panel() && Head() && Lane() && Stack() && Geometry() && Coverage() &&
        Lossy() && Decode() && Classify();
    if (!out_.refusal && out_.disclosures.empty()) Disclose("no_known_deviations");
    return std::move(out_);
  }

 private:
  bool Refuse(std::string gate, std::string code, std::string message) {
    out_.refusal = {std::move(gate), std::move(code), std::move(message)};
    return false;
  }
  bool Disclose(std::string code) {
    out_.disclosures.push_back(std::move(code));
    return true;
  }
  bool Advise(std::string code, bool clears_floor) {
    out_.strict = false;
    if (clears_floor) out_.usable_as_floor = false;
    return code.empty() || Disclose(std::move(code));
  }
  // Does either side say so of itself?
  template <typename Predicate>
  bool Either(Predicate says) const {
    return says(a_) || says(b_);
  }

  bool Seal() {
    for (const auto& [name, side] : {std::pair("reference", &a_), {"candidate", &b_}}) {
      if (side->ok()) continue;
      const Finding& first = side->findings.errors.front();
      return Refuse(
          "seal", "seal_failed",
          std::string(name) + ": " + first.code + " [" + first.rule + "] " + first.message);
    }
    return true;
  }

  bool Provenance() {
    const bool preview = Either([](const DatasetVerdict& side) {
      const Json& block = Of(side, {"preview"});
      return IsTrue(Of(side, {"not_submittable"})) || (block.is_structured() && !block.empty()) ||
             (block.is_string() && !block.get_ref<const std::string&>().empty()) || IsTrue(block);
    });
    return preview ? Advise("preview_capture", true) : true;
  }

  bool Panel() {
    if (Of(a_, {"panel", "suite_token_hash_sha256"}) !=
        Of(b_, {"panel", "suite_token_hash_sha256"})) {
      return Refuse("panel", "panel_mismatch", "the panels hold other tokens");
    }
    if (Of(a_, {"panel", "scoring_window"}) != Of(b_, {"panel", "scoring_window"})) {
      return Refuse("panel", "panel_mismatch", "the scoring windows differ");
    }
    for (const char* key : {"id", "repository", "revision", "vocab_size", "add_special_tokens",
                            "chat_template_applied"}) {
      const Json& a = Of(a_, {"panel", "tokenizer", key});
      const Json& b = Of(b_, {"panel", "tokenizer", key});
      if (a.is_null() || b.is_null() || a == b) continue;
      return Refuse("panel", "panel_mismatch",
                    std::string("tokenizer.") + key + " is " + a.dump() + " and " + b.dump());
    }
    return SharedRecords();
  }

  bool SharedRecords() {
    const auto a = Records(a_), b = Records(b_);
    for (const auto& [index, record] : a) {
      if (b.contains(index)) out_.indices.push_back(index);
    }
    if (out_.indices.empty())
      return Refuse("coverage", "empty_intersection", "the captures share no record");
    for (const int64_t index : out_.indices) {
      const Json &x = *a.at(index), &y = *b.at(index);
      const Json& mask = DatasetMember(x, {"attention_mask_sha256"});
      const Json& other = DatasetMember(y, {"attention_mask_sha256"});
      if (DatasetMember(x, {"token_ids_json_sha256"}) ==
              DatasetMember(y, {"token_ids_json_sha256"}) &&
          (mask.is_null() || other.is_null() || mask == other) &&
          DatasetMember(x, {"scored_rows"}) == DatasetMember(y, {"scored_rows"})) {
        continue;
      }
      return Refuse(
          "panel", "panel_mismatch",
          "record " + std::to_string(index) + " has other tokens, another mask or other rows");
    }
    return true;
  }

  static bool Hidden(const DatasetVerdict& side) {
    return Of(side, {"capture", "form"}) == "hidden";
  }

  bool Head() {
    const Json& a = Of(a_, {"head", "tensor_content_sha256"});
    const Json& b = Of(b_, {"head", "tensor_content_sha256"});
    const bool any_hidden = Hidden(a_) || Hidden(b_), both_hidden = Hidden(a_) && Hidden(b_);
    out_.native_head = !both_hidden || options_.own_heads;
    if ((Hidden(a_) && a.is_null()) || (Hidden(b_) && b.is_null())) {
      return Refuse("head", "head_mismatch", "hidden states without a head's digest");
    }
    if (any_hidden && a != b &&
        EqualAndKnown(Of(a_, {"head", "file_sha256"}), Of(b_, {"head", "file_sha256"}))) {
      return Refuse("head", "head_mismatch",
                    "one file digest and two tensor digests: one of them is wrong");
    }
    if (!any_hidden) return a.is_null() || b.is_null() ? Advise("estimator_unknown", false) : true;
    if (!both_hidden) {
      if (!EqualAndKnown(a, b)) {
        return Refuse("head", "head_mismatch",
                      "hidden states against logits need one head, these differ");
      }
      return Disclose("no_known_deviations");
    }
    if (options_.own_heads) {
      for (const DatasetVerdict* side : {&a_, &b_}) {
        const Json& file = Of(*side, {"head", "file"});
        if (file.is_string() && FindInDataset(side->documents.root, file.get<std::string>()))
          continue;
        return Refuse("head", "head_missing", side->documents.root + " ships no head payload");
      }
      return Disclose("native_head_replay");
    }
    if (a == b) return Disclose("shared_reference_head");
    if (!options_.disclose_head_substitution) {
      return Refuse("head", "head_mismatch",
                    "the heads differ: compare each through its own, or substitute the reference's "
                    "and say so");
    }
    return Advise("head_substituted", true);
  }

  bool Lane() {
    if (Of(a_, {"runtime", "lane"}) == Of(b_, {"runtime", "lane"})) return true;
    if (!options_.allow_cross_lane) {
      return Refuse("lane", "lane_mismatch",
                    "captured in lanes " + DatasetText(Of(a_, {"runtime", "lane"})) + " and " +
                        DatasetText(Of(b_, {"runtime", "lane"})));
    }
    return Advise("cross_engine_capture", true);
  }

  bool Stack() {
    const Json& sources = DatasetMember(a_.documents.runtime, {"source_files"});
    out_.same_stack =
        Of(a_, {"dataset_sha256"}) == Of(b_, {"dataset_sha256"}) ||
        (EqualAndKnown(Of(a_, {"runtime", "lane_identity_sha256"}),
                       Of(b_, {"runtime", "lane_identity_sha256"})) &&
         EqualAndKnown(Of(a_, {"runtime", "stack_fingerprint_sha256"}),
                       Of(b_, {"runtime", "stack_fingerprint_sha256"})) &&
         !sources.empty() && sources == DatasetMember(b_.documents.runtime, {"source_files"}));
    return out_.same_stack ? true : Advise("cross_stack_capture", true);
  }

  bool Geometry() {
    if (Of(a_, {"capture", "vocab_size"}) != Of(b_, {"capture", "vocab_size"})) {
      return Refuse("geometry", "geometry_mismatch", "the vocabularies have other sizes");
    }
    if (Hidden(a_) && Hidden(b_) &&
        Of(a_, {"capture", "hidden_width"}) != Of(b_, {"capture", "hidden_width"})) {
      return Refuse("geometry", "geometry_mismatch", "the hidden states have other widths");
    }
    return true;
  }

  bool Coverage() {
    const size_t a = Records(a_).size(), b = Records(b_).size();
    const bool equal = a == out_.indices.size() && b == out_.indices.size();
    if (!equal && !options_.allow_partial) {
      return Refuse("coverage", "coverage_mismatch",
                    "the captures hold other records of the panel");
    }
    out_.covers_full_panel = equal && IsTrue(Of(a_, {"coverage", "complete"})) &&
                             IsTrue(Of(b_, {"coverage", "complete"}));
    return out_.covers_full_panel ? true : Disclose("subset_of_panel");
  }

  bool Lossy() {
    for (const DatasetVerdict* side : {&a_, &b_}) {
      if (!Of(*side, {"capture", "lossy_codec"}).is_null()) Advise("lossy_capture_codec", false);
      if (Of(*side, {"capture", "dtype_lossless"}) == false)
        Advise("quantized_capture_dtype", false);
    }
    return true;
  }

  bool Decode() {
    if (options_.self_compare) return true;
    static const std::set<std::string> methods = {
        "affine-weight-reconstruction", "microfloat-weight-reconstruction",
        "fp8-block-dequant-to-bf16", "nvfp4-modelopt-dequant-to-bf16", "gguf-dequant-to-bf16"};
    const auto decode = [](const DatasetVerdict& side) -> const Json& {
      return DatasetMember(side.documents.runtime, {"capture_tool", "weights_decode"});
    };
    const auto rebuilt = [&](const DatasetVerdict& side) {
      const std::string method = DatasetText(DatasetMember(decode(side), {"method"}));
      return method.rfind("exl3-trellis-", 0) == 0 || methods.contains(method) ||
             DatasetMember(decode(side), {"scope"}) == "weights_reconstructed";
    };
    const auto activations = [&](const DatasetVerdict& side) {
      const auto scheme = [](const Json& block) {
        const Json& value = DatasetMember(block, {"quantization_config", "activation_scheme"});
        static const std::set<std::string> off = {"null", "", "none"};
        return !off.contains(DatasetText(value));
      };
      const Json& flag = DatasetMember(decode(side), {"activation_quantization"});
      static const std::set<std::string> unset = {"null", "", "false", "0"};
      const bool flagged = !unset.contains(DatasetText(flag));
      return scheme(decode(side)) || scheme(DatasetMember(decode(side), {"mixed_fp8"})) || flagged;
    };
    if (Either(rebuilt)) Advise("weights_reconstructed", false);
    if (Either(activations)) Advise("activation_quantization_not_captured", false);
    return true;
  }

  bool Classify() {
    if (EqualAndKnown(Of(a_, {"capture", "capture_content_digest"}),
                      Of(b_, {"capture", "capture_content_digest"}))) {
      const bool heads_differ =
          (Hidden(a_) || Hidden(b_)) &&
          Of(a_, {"head", "tensor_content_sha256"}) != Of(b_, {"head", "tensor_content_sha256"});
      if (!heads_differ) {
        out_.kind = "reproduction_confirmation";
      } else if (options_.own_heads) {
        Disclose("head_only_difference");
      } else {
        return Refuse("head", "head_substitution_vacuous",
                      "the hidden states are equal, so only the heads differ, and one head for "
                      "both hides that");
      }
    } else if (SameWeights()) {
      out_.kind = "run_to_run_floor";
    }
    if (options_.self_compare && out_.kind != "reproduction_confirmation") {
      return Refuse("self-compare", "not_a_self_compare", "the captures are not the same tensors");
    }
    return true;
  }

  bool SameWeights() const {
    return EqualAndKnown(Of(a_, {"weights", "model_revision"}),
                         Of(b_, {"weights", "model_revision"})) &&
           EqualAndKnown(Of(a_, {"weights", "checkpoint_identity_sha256"}),
                         Of(b_, {"weights", "checkpoint_identity_sha256"})) &&
           EqualAndKnown(Of(a_, {"scope", "scope_digest"}), Of(b_, {"scope", "scope_digest"}));
  }

  const DatasetVerdict& a_;
  const DatasetVerdict& b_;
  const DatasetCompareOptions& options_;
  DatasetRelation out_;
};

}  // namespace

DatasetRelation RelateDatasets(const DatasetVerdict& reference, const DatasetVerdict& candidate,
                               const DatasetCompareOptions& options) {
  return Ladder(reference, candidate, options).Run();
}

}  // namespace assay
