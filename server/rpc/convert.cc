#include "server/rpc/convert.h"

#include <algorithm>
#include <cmath>

#include "server/core/apply.h"
#include "storage/base/digest.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/utf8.h"
#include "storage/format/capture.h"

namespace assay::rpc {
namespace {

constexpr size_t kNameBytesMax = 256;
constexpr size_t kOriginBytesMax = size_t{4} << 10;

std::string Name(const char* collection, const std::string& id) {
  return id.empty() ? "" : collection + ("/" + id);
}

void SetBlob(v1::BlobRef* ref, const std::string& sha256, uint64_t size) {
  ref->set_sha256(sha256);
  ref->set_size(size);
}

void SetFault(const Fault& fault, v1::ErrorInfo* out) {
  out->set_code(fault.code);
  out->set_reason(fault.reason);
  out->set_message(fault.message);
}

void SetSource(const OperandRow& row, v1::OperandSource* out) {
  if (row.given_capture.empty()) out->set_model(Name("models", row.model));
  out->set_capture(Name("captures", row.given_capture));
  out->set_head(Name("heads", row.given_head));
  out->set_head_origin_json(row.head_origin_json);
  if (row.bias_file.empty()) return;
  out->mutable_bias()->set_file_sha256(row.bias_file);
  out->mutable_bias()->set_tensor(row.bias_tensor);
}

void SetSpec(const RunRow& row, v1::RunSpec* spec) {
  spec->set_suite(Name("suites", row.suite));
  spec->set_filter(row.filter);
  SetSource(row.reference, spec->mutable_reference());
  spec->set_reference_label(row.reference_label);
  for (const CandidateRow& candidate : row.candidates) {
    auto* out = spec->add_candidates();
    out->set_label(candidate.label);
    SetSource(candidate.source, out->mutable_source());
  }
  for (const std::string& head : row.heads) spec->add_heads(head);
  spec->set_numeric_policy(row.numeric_policy);
  spec->set_unit_contexts(row.unit_contexts);
  spec->set_row_tile(row.row_tile);
  spec->set_fresh(row.fresh);
  spec->set_valid_vocab(row.valid_vocab);
  spec->set_softcap(row.softcap);
  spec->set_allow_infinite(row.allow_infinite);
  spec->set_no_sentinel_repeat(!row.repeat_sentinels);
  spec->set_backend(row.backend);
  spec->set_logit_scale(row.logit_scale);
  spec->set_score_from(row.score_from);
  spec->set_vocab_chunk(row.vocab_chunk);
  spec->set_limit(row.limit);
}

absl::StatusOr<OperandRow> SourceOf(const v1::OperandSource& source) {
  OperandRow row;
  ASSAY_ASSIGN_OR_RETURN(row.model, OptionalIdOf(source.model(), "models"));
  ASSAY_ASSIGN_OR_RETURN(row.given_capture, OptionalIdOf(source.capture(), "captures"));
  ASSAY_ASSIGN_OR_RETURN(row.given_head, OptionalIdOf(source.head(), "heads"));
  if (source.has_bias()) {
    row.bias_file = source.bias().file_sha256();
    row.bias_tensor = source.bias().tensor();
  }
  if (source.head_origin_json().empty()) return row;
  if (source.head_origin_json().size() > kOriginBytesMax || row.given_head.empty()) {
    return InvalidError("RUN_INVALID",
                        "head_origin_json has at most 4 KiB and belongs to a head that is given");
  }
  ASSAY_ASSIGN_OR_RETURN(const Json origin,
                         ParseJson(source.head_origin_json(), "head_origin_json"));
  if (!origin.is_object())
    return InvalidError("RUN_INVALID", "head_origin_json must be a JSON object");
  ASSAY_ASSIGN_OR_RETURN(row.head_origin_json, CanonicalJson(origin));
  return row;
}

}  // namespace

absl::StatusOr<std::string> IdOf(std::string_view name, std::string_view collection) {
  const std::string prefix = std::string(collection) + "/";
  const std::string text(name);
  const bool good = text.size() > prefix.size() && text.size() <= kNameBytesMax &&
                    text.rfind(prefix, 0) == 0 &&
                    std::all_of(text.begin() + static_cast<std::ptrdiff_t>(prefix.size()),
                                text.end(), [](char c) {
                                  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                         (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                                });
  if (!good) return InvalidError("NAME_INVALID", "a name of the form " + prefix + "ID is wanted");
  return text.substr(prefix.size());
}

absl::StatusOr<std::string> OptionalIdOf(std::string_view name, std::string_view collection) {
  if (name.empty()) return std::string();
  return IdOf(name, collection);
}

v1::Suite ToProto(const SuiteRow& row) {
  v1::Suite out;
  out.set_name(Name("suites", row.id));
  out.set_manifest_sha256(row.id);
  out.set_suite_token_sha256(row.suite_token_sha256);
  out.set_schema(row.schema);
  out.set_model(row.model);
  out.set_contexts(row.contexts);
  out.set_context_length(row.context_length);
  out.set_vocab_size(row.vocab_size);
  out.set_create_time(row.create_ms);
  return out;
}

v1::Model ToProto(const ModelRow& row, bool files_in_store) {
  v1::Model out;
  out.set_name(Name("models", row.id));
  out.set_identity(row.id);
  out.set_manifest_json(row.manifest_json);
  out.set_facts_json(row.facts_json);
  out.set_head(Name("heads", row.head));
  out.set_files_in_store(files_in_store);
  out.set_create_time(row.create_ms);
  return out;
}

v1::Head ToProto(const HeadRow& row) {
  v1::Head out;
  out.set_name(Name("heads", row.id));
  out.set_content_sha256(row.id);
  SetBlob(out.mutable_file(), row.file_sha256, row.file_bytes);
  out.set_tensor(row.tensor);
  out.set_dtype(row.dtype);
  out.set_vocab(row.vocab);
  out.set_hidden(row.hidden);
  out.set_create_time(row.create_ms);
  return out;
}

v1::Capture ToProto(const State& state, const CaptureRow& row) {
  v1::Capture out;
  out.set_name(Name("captures", row.id));
  out.set_suite(Name("suites", row.suite));
  out.set_model(Name("models", row.model));
  out.set_origin(row.origin);
  out.set_cut_point(row.cut_point);
  out.set_identity_json(row.identity_json);
  out.set_contexts_total(row.contexts_total);
  out.set_create_time(row.create_ms);
  CaptureManifest manifest;
  if (const auto it = state.files.find(row.id); it != state.files.end()) {
    for (const auto& [index, file] : it->second[0]) {
      out.set_hidden(file.width);
      manifest.records.push_back({index, file.sha256, static_cast<uint64_t>(file.rows),
                                  static_cast<uint64_t>(file.width)});
    }
  }
  out.set_contexts_done(static_cast<int64_t>(manifest.records.size()));
  const bool complete = out.contexts_done() == row.contexts_total;
  out.set_state(complete ? v1::Capture::COMPLETE : v1::Capture::PARTIAL);
  if (complete) {
    manifest.suite_token_sha256 = state.suites.at(row.suite).suite_token_sha256;
    manifest.cut_point = row.cut_point;
    out.set_content_sha256(manifest.ContentSha256());
  }
  return out;
}

v1::Run ToProto(const State& state, const RunRow& row) {
  v1::Run out;
  out.set_name(Name("runs", row.id));
  out.set_state(static_cast<v1::Run::State>(row.state));
  SetSpec(row, out.mutable_spec());
  if (!row.error.empty()) SetFault(row.error, out.mutable_error());
  bool failed = false;
  for (const CandidateRow& candidate : row.candidates) {
    auto* c = out.add_candidates();
    c->set_label(candidate.label);
    c->set_state(static_cast<v1::RunCandidate::State>(candidate.state));
    if (!candidate.error.empty()) SetFault(candidate.error, c->mutable_error());
    c->set_report(Name("reports", candidate.report));
    if (const auto it = state.reports.find(candidate.report); it != state.reports.end()) {
      c->set_receipt(Name("receipts", it->second.receipt));
    }
    c->set_reused(candidate.reused);
    c->set_model(Name("models", candidate.source.model));
    c->set_capture(Name("captures", candidate.source.capture));
    failed = failed || candidate.state == CandidateState::kFailed;
  }
  out.set_partial(row.state == RunState::kSucceeded && failed);
  if (const auto it = state.unit_counts.find(row.id); it != state.unit_counts.end()) {
    out.set_units_total(it->second.total);
    out.set_units_done(it->second.done);
  }
  out.set_create_time(row.create_ms);
  out.set_end_time(row.end_ms);
  out.set_revision(row.revision);
  out.set_reference_capture(Name("captures", row.reference.capture));
  out.set_kernel_identity_json(row.replay_identity_json);
  return out;
}

v1::Unit ToProto(const UnitRow& row) {
  v1::Unit out;
  const std::string parent = !row.run.empty()       ? Name("runs", row.run)
                             : !row.capture.empty() ? Name("captures", row.capture)
                                                    : Name("models", row.model);
  out.set_name(parent + "/units/" + std::to_string(row.id));
  out.set_kind(std::string(UnitKindName(row.kind)));
  out.set_state(static_cast<v1::Unit::State>(row.state));
  out.set_attempt(row.attempt);
  if (!row.attempts.empty()) out.set_worker(Name("workers", row.attempts.back().worker));
  out.set_contexts(static_cast<int64_t>(row.contexts.size()));
  if (!row.error.empty()) SetFault(row.error, out.mutable_error());
  return out;
}

v1::Report ToProto(const ReportRow& row) {
  v1::Report out;
  out.set_name(Name("reports", row.id));
  SetBlob(out.mutable_report(), row.id, row.report_bytes);
  SetBlob(out.mutable_execution(), row.execution_sha256, row.execution_bytes);
  out.set_receipt(Name("receipts", row.receipt));
  out.set_run(Name("runs", row.run));
  out.set_label(row.label);
  for (const ArrayRow& array : row.arrays) {
    auto* a = out.add_arrays();
    a->set_head(array.head);
    a->set_output(array.output);
    a->set_dtype(array.dtype);
    SetBlob(a->mutable_file(), array.sha256, array.bytes);
  }
  out.set_create_time(row.create_ms);
  return out;
}

v1::Receipt ToProto(const ReceiptRow& row) {
  v1::Receipt out;
  out.set_name(Name("receipts", row.id));
  SetBlob(out.mutable_receipt(), row.receipt_sha256, row.receipt_bytes);
  out.set_report(Name("reports", row.report));
  out.set_leaf_index(row.leaf_index);
  out.set_key_id(row.key_id);
  out.set_create_time(row.create_ms);
  return out;
}

v1::Worker ToProto(const State& state, const WorkerState& row) {
  v1::Worker out;
  out.set_name(Name("workers", row.id));
  out.set_state(!row.live      ? v1::Worker::LOST
                : row.draining ? v1::Worker::DRAINING
                               : v1::Worker::LIVE);
  out.set_incarnation(row.incarnation);
  out.set_build_id(row.build);
  out.set_tp(static_cast<int32_t>(row.tp));
  if (!row.replay_identity.empty()) out.set_replay_identity_sha256(Sha256Hex(row.replay_identity));
  if (!row.capture_identity.empty())
    out.set_capture_identity_sha256(Sha256Hex(row.capture_identity));
  for (const std::string& lease : row.leases) {
    const auto it = state.leases.find(lease);
    if (it != state.leases.end()) out.add_leases(ToProto(state.units.at(it->second.unit)).name());
  }
  out.set_last_seen(row.seen_unix_ms);
  out.set_replay_identity_json(row.replay_identity);
  out.set_capture_identity_json(row.capture_identity);
  return out;
}

absl::StatusOr<RunRow> FromProto(const v1::CreateRunRequest& request) {
  const v1::RunSpec& spec = request.spec();
  RunRow run;
  run.request_id = request.request_id();
  ASSAY_ASSIGN_OR_RETURN(run.suite, IdOf(spec.suite(), "suites"));
  run.filter = spec.filter().empty() ? "all" : spec.filter();
  ASSAY_ASSIGN_OR_RETURN(run.reference, SourceOf(spec.reference()));
  run.reference_label = CutUtf8(spec.reference_label(), kNameBytesMax);
  for (const v1::CandidateSpec& candidate : spec.candidates()) {
    CandidateRow row;
    row.label = candidate.label();
    ASSAY_ASSIGN_OR_RETURN(row.source, SourceOf(candidate.source()));
    run.candidates.push_back(std::move(row));
  }
  run.heads.assign(spec.heads().begin(), spec.heads().end());
  run.numeric_policy = spec.numeric_policy().empty() ? "exact" : spec.numeric_policy();
  run.unit_contexts = spec.unit_contexts();
  run.row_tile = spec.row_tile();
  run.fresh = spec.fresh();
  run.valid_vocab = spec.valid_vocab();
  run.softcap = spec.softcap();
  if (!std::isfinite(run.softcap) || run.softcap < 0) {
    return InvalidError("RUN_INVALID", "softcap must be a finite number, 0 for none");
  }
  run.allow_infinite = spec.allow_infinite();
  run.repeat_sentinels = !spec.no_sentinel_repeat();
  run.backend = spec.backend();
  run.logit_scale = spec.logit_scale() == 1 ? 0 : spec.logit_scale();
  run.score_from = spec.score_from();
  run.vocab_chunk = spec.vocab_chunk();
  run.limit = spec.limit();
  // Over the fields as understood, so that the digest does not depend on how a library writes a
  // message.
  run.spec_sha256 = Sha256Hex(EncodeRow(run));
  return run;
}

}  // namespace assay::rpc
