#include "storage/dataset/receipt_text.h"

#include <algorithm>

#include "storage/dataset/finding.h"

namespace assay {
namespace {

std::string Both(const Json& a, const Json& b, std::initializer_list<const char*> path) {
  return DatasetText(DatasetMember(a, path)) + " and " + DatasetText(DatasetMember(b, path));
}

struct DisclosureText {
  const char* code;
  const char* severity;
  bool affects_comparability;
  const char* detail;
};

constexpr DisclosureText kDisclosures[] = {
    {"no_known_deviations", "info", false, "nothing was overridden, and nothing was found to tell"},
    {"shared_reference_head", "info", false, "both sides were replayed through one head"},
    {"native_head_replay", "info", false, "each side was replayed through its own head"},
    {"head_only_difference", "info", false,
     "the hidden states are equal: the whole difference is the heads'"},
    {"head_substituted", "blocking", true,
     "the candidate was replayed through a head that is not its own"},
    {"estimator_unknown", "caveat", true, "a capture of logits does not say which head made them"},
    {"cross_engine_capture", "caveat", true, "the captures come from different lanes"},
    {"cross_stack_capture", "caveat", true,
     "the captures come from different stacks, or their code is not recorded: an effect of unknown "
     "sign and size is part of the number"},
    {"subset_of_panel", "caveat", true, "only the records that both sides hold were compared"},
    {"lossy_capture_codec", "caveat", true, "a capture was stored with loss"},
    {"quantized_capture_dtype", "caveat", true,
     "a capture was stored narrower than it was computed"},
    {"weights_reconstructed", "caveat", true,
     "a capture was made from weights decoded beforehand: quantized products are not in the "
     "number"},
    {"activation_quantization_not_captured", "caveat", true,
     "the checkpoint asks for quantized activations, which the capture does not contain"},
    {"preview_capture", "blocking", true, "a capture is a preview"},
};

}  // namespace

Json ReceiptGates(const Json& reference, const Json& candidate, const DatasetRelation& relation,
                  const DatasetCompareOptions& options) {
  Json out;
  const auto gate = [&](const char* name, std::string detail, bool overridden = false,
                        const char* option = nullptr) {
    out[name] = {{"passed", true},
                 {"detail", std::move(detail)},
                 {"overridden_by", overridden ? Json(option) : Json(nullptr)}};
  };
  const auto disclosed = [&](const char* code) {
    const auto& codes = relation.disclosures;
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  };
  gate("seal", "both datasets verified: seals, checksums and every tensor");
  gate("form", Both(reference, candidate, {"capture", "form"}));
  gate("panel",
       "the same suite, window and tokenizer; tokens and masks of every shared record agree");
  gate("head", "heads " + Both(reference, candidate, {"head", "tensor_content_sha256"}),
       disclosed("head_substituted"), "--disclose-head-substitution");
  gate("lane", "lanes " + Both(reference, candidate, {"runtime", "lane"}),
       disclosed("cross_engine_capture"), "--allow-cross-lane");
  gate("stack", relation.same_stack ? "one stack" : "different stacks, or not proven to be one");
  gate("geometry", "vocabularies " + Both(reference, candidate, {"capture", "vocab_size"}) +
                       ", widths " + Both(reference, candidate, {"capture", "hidden_width"}));
  const bool partial =
      options.allow_partial && DatasetMember(reference, {"capture", "records_count"}) !=
                                   DatasetMember(candidate, {"capture", "records_count"});
  gate("coverage", std::to_string(relation.indices.size()) + " shared records", partial,
       "--allow-partial");
  gate("lossy", disclosed("lossy_capture_codec") || disclosed("quantized_capture_dtype")
                    ? "a capture was stored with loss"
                    : "no capture was stored with loss");
  gate("decode", options.self_compare ? "not looked at: a self-compare"
                 : disclosed("weights_reconstructed")
                     ? "weights were decoded before the forward pass"
                     : "no decoded weights");
  return out;
}

Json ReceiptDisclosures(const std::vector<std::string>& codes) {
  Json out = Json::array();
  for (const std::string& code :
       codes.empty() ? std::vector<std::string>{"no_known_deviations"} : codes) {
    const auto* known = std::find_if(std::begin(kDisclosures), std::end(kDisclosures),
                                     [&](const DisclosureText& text) { return text.code == code; });
    const bool found = known != std::end(kDisclosures);
    out.push_back({{"code", code},
                   {"severity", found ? known->severity : "caveat"},
                   {"affects_comparability", !found || known->affects_comparability},
                   {"detail", found ? known->detail : "stated by a dataset"}});
  }
  return out;
}

Json ReceiptTool() {
  return {{"entrypoint", "assay dataset compare"},
          {"note", "an implementation of its own: float32 products, float64 from there on"}};
}

std::string ReceiptSoftmaxNote() {
  return "log-softmax in float64 over every stored column; nothing is cut, clamped or masked, and "
         "a "
         "value that is not finite is refused";
}
std::string ReceiptZeroNote() { return "exactly zero, not rounded to it"; }
std::string ReceiptDeterminismNote() {
  return "one comparison of two captures; it says nothing about repeated runs";
}
std::string ReceiptKeyNote() {
  return "from the reference's dataset id; a registry computes it anew from its own record";
}
std::string ReceiptSubsetDetail(size_t records) {
  return "the " + std::to_string(records) + " records that both captures hold";
}
std::string ReceiptBiasDetail(const std::string& kind) {
  return kind == "other"
             ? "the candidate's own head is not in the number; the sign of that is unknown"
             : "captures of different stacks; sign and size of that are unknown";
}
std::string ReceiptSubmissionRefusal(const std::string& kind) {
  return kind + " is no measurement, and only measurements are submitted";
}

}  // namespace assay
