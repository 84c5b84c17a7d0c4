// Records of capture and panel: what each states, and that both speak of the same tokens.

#include <map>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/tree.h"
#include "storage/dataset/verify.h"
#include "storage/format/suite.h"
#include "storage/format/token_list.h"

namespace assay {
namespace {

constexpr uint64_t kTokenBytesMax = uint64_t{64} << 20;

void Add(Findings* findings, std::string code, std::string rule, std::string message) {
  findings->errors.push_back({std::move(code), std::move(rule), std::move(message)});
}

std::string RecordName(const char* document, const Json& record) {
  return std::string(document) + ", index " + DatasetMember(record, {"index"}).dump();
}

// Records by their index; of two with one index the first.
std::map<int64_t, const Json*> ByIndex(const Json& document) {
  std::map<int64_t, const Json*> out;
  for (const Json& record : document.at("records")) {
    if (const auto index = DatasetInt(DatasetMember(record, {"index"})))
      out.emplace(*index, &record);
  }
  return out;
}

void CheckShape(const DatasetDocuments& documents, const Json& record, const std::string& where,
                Findings* findings) {
  const Json& shape = DatasetMember(record, {"shape"});
  if (!shape.is_array() || shape.size() != 2) return;
  const bool hidden = DatasetMember(documents.manifest, {"capture", "form"}) == "hidden";
  const Json& width =
      DatasetMember(documents.manifest, {"capture", hidden ? "hidden_width" : "vocab_size"});
  if (shape[0] != DatasetMember(record, {"scored_rows"})) {
    Add(findings, "schema_invalid", "REC-3", where + ": shape has other rows than scored_rows");
  }
  if (shape[1] != width) {
    Add(findings, "schema_invalid", "REC-3",
        where + ": shape has other columns than " + (hidden ? "hidden_width" : "vocab_size"));
  }
}

}  // namespace

void CheckRecords(const DatasetDocuments& documents, Findings* findings) {
  std::map<int64_t, int> seen;
  for (const Json& record : documents.capture.at("records")) {
    const std::string where = RecordName("capture/manifest.json", record);
    const auto index = DatasetInt(DatasetMember(record, {"index"}));
    if (!index || *index < 0) {
      Add(findings, "schema_invalid", "REC-1", where + ": the index is no integer from 0");
    } else if (++seen[*index] == 2) {
      Add(findings, "digest_mismatch", "REC-1", where + ": two records have this index");
    }
    if (DatasetMember(record, {"key"}) !=
        DatasetMember(documents.manifest, {"capture", "tensor_key"})) {
      Add(findings, "schema_invalid", "REC-2", where + ": key is not the capture's tensor_key");
    }
    CheckShape(documents, record, where, findings);
    if (IsTrue(DatasetMember(record, {"raw_chunks_retained"}))) {
      Add(findings, "path_escape", "REC-4", where + ": raw chunks outside the dataset are kept");
    }
  }
}

void CheckPanelAggregate(const DatasetDocuments& documents, Findings* findings) {
  std::string legacy;
  for (const auto& [index, record] : ByIndex(documents.panel)) {
    legacy += DatasetText(DatasetMember(*record, {"token_ids_json_sha256"}));
  }
  const std::string suite = DatasetSuiteHash(documents.panel.at("records"));
  if (DatasetMember(documents.panel, {"suite_token_hash_sha256"}) != suite) {
    Add(findings, "panel_digest_mismatch", "BIND-6",
        "panel/panel.json: suite_token_hash_sha256 is not that of its records");
  }
  if (DatasetMember(documents.manifest, {"panel", "suite_token_hash_sha256"}) != suite) {
    Add(findings, "panel_digest_mismatch", "BIND-6",
        "fidelity-dataset.json: panel.suite_token_hash_sha256 is not that of the panel's records");
  }
  const Json& stated = DatasetMember(documents.panel, {"panel_token_sha256_legacy"});
  if (!stated.is_null() && stated != Sha256Hex(legacy)) {
    findings->warnings.push_back({"panel_digest_mismatch", "5.1",
                                  "panel/panel.json: panel_token_sha256_legacy is not that of its "
                                  "records; older panels state another value there"});
  }
}

int64_t CheckPanelTokens(const DatasetDocuments& documents, const DatasetOptions& options,
                         Findings* findings) {
  int64_t looked_at = 0;
  for (const auto& [index, record] : ByIndex(documents.panel)) {
    const std::string name = DatasetText(DatasetMember(*record, {"token_file"}));
    const auto path = FindInDataset(documents.root, name);
    if (!path) {
      if (!options.allow_partial)
        Add(findings, "missing_file", "3", name + " is not in the folder");
      continue;
    }
    ++looked_at;
    const auto text = ReadFile(*path, kTokenBytesMax);
    const auto tokens = text.ok() ? ParseTokenList(*text, name) : text.status();
    if (!tokens.ok()) {
      Add(findings, "bad_schema", "BIND-6", MessageOf(tokens.status()));
      continue;
    }
    std::string compact = "[";
    for (const int32_t id : *tokens)
      compact += (compact.size() > 1 ? "," : "") + std::to_string(id);
    compact += "]";
    if (DatasetMember(*record, {"token_ids_json_sha256"}) != Sha256Hex(compact)) {
      Add(findings, "panel_digest_mismatch", "BIND-6",
          name + ": not the ids that the panel states");
    }
    const Json& legacy = DatasetMember(*record, {"token_ids_sha256_legacy"});
    if (!legacy.is_null() && legacy != Sha256Hex(TokenFileBytes(*tokens))) {
      Add(findings, "panel_digest_mismatch", "5.1/P8",
          name + ": not the ids of token_ids_sha256_legacy");
    }
    if (DatasetMember(*record, {"num_tokens"}) != tokens->size()) {
      Add(findings, "panel_binding", "BIND-6",
          name + " holds " + std::to_string(tokens->size()) + " ids, the panel states " +
              DatasetMember(*record, {"num_tokens"}).dump());
    }
  }
  const Json& receipt = DatasetMember(documents.manifest, {"panel", "panel_receipt_sha256"});
  if (!receipt.is_null() &&
      receipt == DatasetMember(documents.manifest, {"panel", "suite_token_hash_sha256"})) {
    Add(findings, "schema_invalid", "PANEL-D2",
        "panel_receipt_sha256 repeats the suite's token digest, it must be a receipt's");
  }
  return looked_at;
}

void CheckBinding(const DatasetDocuments& documents, Findings* findings) {
  const std::map<int64_t, const Json*> panel = ByIndex(documents.panel);
  int64_t rows = 0;
  for (const Json& record : documents.capture.at("records")) {
    const std::string where = RecordName("capture/manifest.json", record);
    const auto scored = DatasetInt(DatasetMember(record, {"scored_rows"}));
    // A lie about rows is found below; a sum beyond 64 bits can't equal any total.
    if (!scored || __builtin_add_overflow(rows, *scored, &rows)) rows = -1;
    const auto index = DatasetInt(DatasetMember(record, {"index"}));
    const auto at = index ? panel.find(*index) : panel.end();
    if (at == panel.end()) {
      Add(findings, "panel_binding", "BIND-1", where + ": the panel has no such record");
      continue;
    }
    const Json& other = *at->second;
    if (DatasetMember(record, {"token_ids_json_sha256"}) !=
        DatasetMember(other, {"token_ids_json_sha256"})) {
      Add(findings, "panel_binding", "BIND-2",
          where + ": captured over other tokens than the panel's");
    }
    const Json& mask = DatasetMember(record, {"attention_mask_sha256"});
    const Json& panel_mask = DatasetMember(other, {"attention_mask_sha256"});
    if (!mask.is_null() && !panel_mask.is_null() && mask != panel_mask) {
      Add(findings, "panel_binding", "BIND-3", where + ": captured under another attention mask");
    }
    if (DatasetMember(record, {"scored_rows"}) != DatasetMember(other, {"prediction_positions"})) {
      Add(findings, "panel_binding", "BIND-4", where + ": other rows than the panel's positions");
    }
  }
  if (IsTrue(DatasetMember(documents.manifest, {"coverage", "complete"})) &&
      DatasetMember(documents.manifest, {"panel", "scored_positions_total"}) != rows) {
    Add(findings, "panel_binding", "BIND-5",
        "panel.scored_positions_total is not the sum of the records' rows");
  }
}

void CheckCoverage(const DatasetDocuments& documents, const DatasetOptions& options,
                   Findings* findings) {
  const Json& coverage = DatasetMember(documents.manifest, {"coverage"});
  const Json& records = documents.capture.at("records");
  const std::map<int64_t, const Json*> indices = ByIndex(documents.capture);
  const auto declared = DatasetInt(DatasetMember(coverage, {"declared_records"}));
  const auto count = static_cast<int64_t>(records.size());
  const bool complete =
      declared == count && static_cast<int64_t>(indices.size()) == count &&
      (count == 0 || (indices.begin()->first == 0 && indices.rbegin()->first == count - 1));
  if (DatasetMember(coverage, {"complete"}) != complete) {
    Add(findings, "incomplete", "COV-1",
        std::string("coverage.complete says ") + DatasetMember(coverage, {"complete"}).dump() +
            ", the records say " + (complete ? "true" : "false"));
  }
  if (DatasetMember(coverage, {"present_records"}) != count) {
    Add(findings, "incomplete", "COV-1",
        "coverage.present_records is not the number of records, " + std::to_string(count));
  }
  if (complete) return;
  if (DatasetMember(coverage, {"shard_of"}).is_null() &&
      DatasetMember(coverage, {"subset_detail"}).is_null()) {
    Add(findings, "incomplete", "COV-2",
        "records are missing, and neither shard_of nor subset_detail says why");
  }
  if (!options.allow_partial) {
    Add(findings, "incomplete", "COV-3",
        "records are missing; --allow-partial accepts a shard or a subset");
  }
}

}  // namespace assay
