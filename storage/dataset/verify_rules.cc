// Rules that the manifest must keep: head, determinism, role, scope, lane, remap.

#include <map>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/tree.h"
#include "storage/dataset/verify.h"

namespace assay {
namespace {

constexpr uint64_t kDocumentBytesMax = uint64_t{256} << 20;

void Invalid(Findings* findings, std::string rule, std::string message) {
  findings->errors.push_back({"schema_invalid", std::move(rule), std::move(message)});
}

// Values under keys that hold digests of whole files or receipts, anywhere in `document`.
void CollectContainerDigests(const Json& document, std::set<std::string>* out) {
  static const std::set<std::string> keys = {"file_sha256",          "sha256",
                                             "manifest_file_sha256", "panel_file_sha256",
                                             "checksums_sha256",     "receipt_sha256"};
  if (document.is_array()) {
    for (const Json& item : document) CollectContainerDigests(item, out);
  }
  if (!document.is_object()) return;
  for (const auto& [key, value] : document.items()) {
    if (value.is_string() && keys.contains(key)) out->insert(value.get<std::string>());
    CollectContainerDigests(value, out);
  }
}

bool Discloses(const Json& manifest, std::string_view code) {
  for (const Json& disclosure : DatasetMember(manifest, {"disclosures"})) {
    if (DatasetMember(disclosure, {"code"}) == std::string(code)) return true;
  }
  return false;
}

// "attn." names a family, anything else one class.
bool HasClass(const std::set<std::string>& classes, std::string_view family) {
  for (const std::string& name : classes) {
    if (family.back() == '.' ? name.rfind(family, 0) == 0 : name == family) return true;
  }
  return false;
}

}  // namespace

void CheckHead(const DatasetDocuments& documents, Findings* findings) {
  const Json& manifest = documents.manifest;
  const Json& head = DatasetMember(manifest, {"head"});
  const bool hidden = DatasetMember(manifest, {"capture", "form"}) == "hidden";
  const bool present = IsTrue(DatasetMember(head, {"present"}));
  const Json& applied = DatasetMember(head, {"applied_in_capture"});
  const Json& content = DatasetMember(head, {"tensor_content_sha256"});
  if (hidden && IsTrue(applied)) {
    Invalid(findings, "HEAD-5", "hidden states were captured, so the head can't have been applied");
  }
  if (hidden && content.is_null()) {
    findings->errors.push_back(
        {"head_mismatch", "HEAD-4", "hidden states need a head, and its digest is missing"});
  }
  if (!hidden && present && applied == false) {
    Invalid(findings, "4.2", "logits were captured, so the head must have been applied");
  }
  if (!content.is_null() && DatasetMember(head, {"raw_tensor_sha256"}) != content) {
    Invalid(findings, "HEAD-IDENT", "head.raw_tensor_sha256 is not head.tensor_content_sha256");
  }
  if (!content.is_null() && DatasetMember(head, {"file_sha256"}) == content) {
    findings->warnings.push_back(
        {"schema_invalid", "HEAD-IDENT/O-6",
         "head.file_sha256 repeats the tensor's digest; a file's is another"});
  }
  if (DatasetMember(manifest, {"capture", "semantic_point"}) ==
          "after_final_rmsnorm_before_lm_head" &&
      IsTrue(DatasetMember(head, {"final_norm", "applied_at_replay"}))) {
    Invalid(findings, "HEAD-7", "the final norm would be applied twice");
  }
  if (DatasetMember(manifest, {"dataset", "role"}) == "root" && !present) {
    Invalid(findings, "HEAD-6", "a root dataset ships its head");
  }
}

void CheckDeterminism(const DatasetDocuments& documents, Findings* findings) {
  const Json& block = DatasetMember(documents.manifest, {"determinism"});
  const Json& hashes = DatasetMember(block, {"evidence_hashes"});
  std::set<std::string> distinct;
  if (hashes.is_array()) {
    for (const Json& hash : hashes) distinct.insert(DatasetText(hash));
  }
  const auto runs = DatasetInt(DatasetMember(block, {"run_count"})).value_or(0);
  if (DatasetMember(block, {"distinct_evidence_hash_count"}) != distinct.size()) {
    Invalid(findings, "DET-D1",
            "distinct_evidence_hash_count is not the number of distinct digests");
  }
  if (IsTrue(DatasetMember(block, {"identical_across_runs"}))) {
    static const std::set<std::string> content = {"hidden_state_tensor_sha256",
                                                  "logits_tensor_sha256", "tokenwise_kld_sha256",
                                                  "sealed_tokenwise_digest"};
    if (!content.contains(DatasetText(DatasetMember(block, {"evidence_kind"})))) {
      Invalid(findings, "DET-D1",
              "identical runs are claimed on evidence that is no content digest");
    }
    if (runs < 2) Invalid(findings, "DET-D1", "identical runs are claimed of fewer than two");
    if (distinct.size() != 1)
      Invalid(findings, "DET-D1", "identical runs are claimed, the digests differ");
  }
  std::set<std::string> containers;
  CollectContainerDigests(documents.manifest, &containers);
  const Json& receipt = DatasetMember(documents.manifest, {"panel", "panel_receipt_sha256"});
  for (const std::string& hash : distinct) {
    if (containers.contains(hash)) {
      Invalid(findings, "DET-D2", "the digest of a file is given as evidence: " + hash);
    }
    if (receipt == hash) Invalid(findings, "DET-D3", "the panel's receipt is given as evidence");
  }
  if (runs < 5 && !Discloses(documents.manifest, "reduced_run_count")) {
    findings->warnings.push_back(
        {"reduced_run_count", "DET-D4",
         std::to_string(runs) + " runs, five are expected; disclose reduced_run_count"});
  }
}

void CheckRole(const DatasetDocuments& documents, Findings* findings) {
  const Json& manifest = documents.manifest;
  const auto missing = [&](std::vector<Finding>* where, const std::string& name) {
    where->push_back({"missing_file", "3", name + " is not in the folder"});
  };
  if (DatasetMember(manifest, {"dataset", "structural_status"}) == "sealed") {
    for (const char* name : {"validation/structural-validation.json", "README.md"}) {
      if (!FileExists(JoinPath(documents.root, name))) missing(&findings->errors, name);
    }
  }
  const Json& role = DatasetMember(manifest, {"dataset", "role"});
  const Json& base = DatasetMember(manifest, {"dataset", "base_capture"});
  if (role == "root") {
    bool native = DatasetMember(manifest, {"scope", "policy"}) == "native" &&
                  DatasetMember(manifest, {"scope", "head_policy"}) == "native";
    for (const Json& assignment : DatasetMember(manifest, {"scope", "assignments"})) {
      native = native && DatasetMember(assignment, {"treatment"}) == "native";
    }
    if (!native) Invalid(findings, "ROOT-1", "a root dataset has native weights throughout");
    if (IsTrue(DatasetMember(manifest, {"weights", "quantized"}))) {
      Invalid(findings, "ROOT-1", "a root dataset's weights are not quantized");
    }
    if (IsTrue(DatasetMember(manifest, {"head", "quantized"}))) {
      Invalid(findings, "ROOT-1", "a root dataset's head is not quantized");
    }
    if (!base.is_null()) Invalid(findings, "3", "a root dataset has no base_capture");
    if (!DatasetMember(manifest, {"capture", "lossy_codec"}).is_null()) {
      Invalid(findings, "3", "a root dataset is not stored with a lossy codec");
    }
    const Json& file = DatasetMember(manifest, {"head", "file"});
    if (file.is_string() && !FindInDataset(documents.root, file.get<std::string>())) {
      missing(&findings->warnings, file.get<std::string>());
    }
  }
  if (role == "derived" && base.is_null()) {
    Invalid(findings, "3", "a derived dataset names its base_capture");
  }
}

void CheckScope(const DatasetDocuments& documents, Findings* findings) {
  static const std::set<std::string> keys = {"tensor_class",    "treatment",   "format",
                                             "bits_per_weight", "layer_range", "note"};
  static const std::set<std::string> formats = {
      "fp64",         "bf16", "fp16", "fp32",       "fp8_e4m3",  "fp8_e5m2",     "nvfp4",
      "mxfp4",        "int8", "int4", "exl3-mcg",   "exl3-mul1", "exl3-trellis", "gguf-k-quant",
      "gguf-i-quant", "awq",  "gptq", "mlx-affine", "hqq",       "mixed",        "unknown"};
  const auto warn = [&](std::string code, std::string rule, std::string message) {
    findings->warnings.push_back(
        {std::move(code), std::move(rule), "scope: " + std::move(message)});
  };
  std::set<std::string> classes, places;
  for (const Json& assignment : DatasetMember(documents.manifest, {"scope", "assignments"})) {
    if (!assignment.is_object()) continue;
    const std::string name = DatasetText(DatasetMember(assignment, {"tensor_class"}));
    classes.insert(name);
    if (!places.insert(name + " " + DatasetMember(assignment, {"layer_range"}).dump()).second) {
      warn("scope_duplicate_assignment", "SCOPE-004", name + " is assigned twice");
    }
    for (const auto& [key, value] : assignment.items()) {
      if (!keys.contains(key))
        warn("scope_assignment_keys", "SCOPE-VOCAB", name + " has a member " + key);
    }
    const std::string format = DatasetText(DatasetMember(assignment, {"format"}));
    if (!formats.contains(format)) {
      warn("scope_format_unknown", "SCOPE-VOCAB",
           name + ": format " + format + " is not on the list");
    }
  }
  for (const char* family : {"embed_tokens", "lm_head", "attn."}) {
    if (!HasClass(classes, family))
      warn("scope_coverage", "SCOPE-004", std::string("nothing is said of ") + family);
  }
  if (!HasClass(classes, "mlp.") && !HasClass(classes, "moe.")) {
    warn("scope_coverage", "SCOPE-004", "nothing is said of mlp. or moe.");
  }
}

void CheckLaneAndRemap(const DatasetDocuments& documents, Findings* findings) {
  static const std::set<std::string> lanes = {"sealed-ep8", "streaming", "local-mps",
                                              "local-cuda-budget", "other"};
  const std::string lane = DatasetText(DatasetMember(documents.manifest, {"runtime", "lane"}));
  if (!lanes.contains(lane))
    Invalid(findings, "9.3", "runtime.lane " + lane + " is not on the list");
  const Json& file = DatasetMember(documents.manifest, {"panel", "remap_file"});
  if (file.is_null()) return;
  const auto bad = [&](std::string rule, std::string message) {
    findings->errors.push_back(
        {"remap_invalid", std::move(rule), DatasetText(file) + ": " + std::move(message)});
  };
  const auto path = FindInDataset(documents.root, DatasetText(file));
  const auto remap =
      path ? ReadJsonFile(*path, kDocumentBytesMax)
           : absl::StatusOr<Json>(NotFoundError("FILE_MISSING", "it is not in the folder"));
  if (!remap.ok()) return bad("REMAP-2", MessageOf(remap.status()));
  if (DatasetMember(*remap, {"receipt_sha256"}) != DatasetSeal(*remap, "receipt_sha256")) {
    bad("REMAP-2", "it was changed after it was sealed");
  }
  const Json& entries = DatasetMember(*remap, {"entries"});
  if (!entries.is_object()) return bad("REMAP-2", "it has no entries");
  for (const auto& [digest, target] : entries.items()) {
    const auto found = FindInDataset(documents.root, DatasetText(target));
    const auto actual = found ? Sha256File(*found) : absl::StatusOr<std::string>("");
    if (!actual.ok() || *actual != digest)
      bad("REMAP-2", DatasetText(target) + " is not the file of " + digest);
  }
  const auto receipt_path =
      FindInDataset(documents.root, DatasetText(DatasetMember(*remap, {"for_receipt_file"})));
  const auto receipt = receipt_path
                           ? ReadJsonFile(*receipt_path, kDocumentBytesMax)
                           : absl::StatusOr<Json>(NotFoundError("FILE_MISSING", "no receipt"));
  if (!receipt.ok() || !receipt->is_object()) return bad("REMAP-3", "its receipt can't be read");
  Json absent = *receipt;
  absent.erase("receipt_sha256");
  const Json& stated = DatasetMember(*receipt, {"receipt_sha256"});
  if (stated != DatasetSeal(*receipt, "receipt_sha256") &&
      stated != Sha256Hex(DatasetCanonicalJson(absent) + "\n")) {
    bad("REMAP-3", "its receipt was changed after it was sealed");
  }
  for (const Json& artifact : DatasetMember(*receipt, {"artifacts"})) {
    const std::string digest = DatasetText(DatasetMember(artifact, {"sha256"}));
    if (!entries.contains(digest)) bad("REMAP-1", "no entry for the receipt's " + digest);
  }
}

}  // namespace assay
