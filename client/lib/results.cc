#include "client/lib/results.h"

#include <algorithm>
#include <array>

#include "client/lib/kept_labels.h"
#include "client/lib/proto_json.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/out_folder.h"
#include "storage/base/status.h"
#include "storage/base/temporary_file.h"
#include "storage/report/candidate_files.h"
#include "storage/report/positions.h"
#include "storage/report/report.h"
#include "storage/seal/key_list.h"
#include "storage/seal/receipt.h"

namespace assay {
namespace {

constexpr std::array<std::string_view, 7> kOutFiles = {
    kSummaryFile,    kSummaryCsvFile, kSummaryMarkdownFile, kPublicKeyFile,
    kVerifyTextFile, kIndexPageFile,  kKeyListFile};
constexpr uint64_t kExecutionBytesMax = uint64_t{1} << 28;
constexpr uint64_t kArrayBytesMax = kReportPositionsMax * 8;

absl::StatusOr<std::string> ReadRef(Client* client, const Json& ref, uint64_t max_bytes) {
  if (!ref.is_object()) {
    return DataLossError("ANSWER_INCOMPLETE",
                         "the coordinator named no blob where one belongs; its version may not fit "
                         "this program's");
  }
  return client->blobs().ReadBytes(ref.value("sha256", ""), max_bytes);
}

// Stores one downloaded array where it belongs.
absl::Status PlaceArray(std::string_view output, const std::string& bytes, const std::string& where,
                        PositionArrays* arrays) {
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    if (kF64Outputs[i] != output) continue;
    ASSAY_ASSIGN_OR_RETURN(arrays->f64[i], F64FromBytes(bytes, where));
    arrays->positions = arrays->f64[i].size();
    return absl::OkStatus();
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    if (kI32Outputs[i] != output) continue;
    ASSAY_ASSIGN_OR_RETURN(arrays->i32[i], I32FromBytes(bytes, where));
    return absl::OkStatus();
  }
  return DataLossError("ANSWER_INCOMPLETE",
                       fmt::format("{}: this program knows no output of that name; use one of the "
                                   "coordinator's version",
                                   where));
}

// keys.json, where the log has had other keys: older receipts are signed with those.
absl::Status WriteKeyList(const Json& key, const std::string& out) {
  if (!key.contains("keys") || !key["keys"].is_object()) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, CanonicalJson(key["keys"]));
  ASSAY_ASSIGN_OR_RETURN(const KeyList list, KeyList::Parse(bytes, "the coordinator's keys"));
  if (list.keys().size() < 2) return absl::OkStatus();
  return WriteFileAtomic(JoinPath(out, kKeyListFile), bytes);
}

}  // namespace

absl::Status CheckOutFolder(const std::string& out, const std::vector<std::string>& labels) {
  ASSAY_RETURN_IF_ERROR(CheckCanWriteFolder(out));
  if (!IsDirectory(out)) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(out));
  for (const std::string& name : names) {
    const bool ours = name == kReplacedFolder ||
                      std::any_of(kOutFiles.begin(), kOutFiles.end(),
                                  [&](std::string_view file) {
                                    return name == file || IsTemporaryOf(name, file);
                                  }) ||
                      std::find(labels.begin(), labels.end(), name) != labels.end();
    if (ours) continue;
    const bool result = FileExists(JoinPath(JoinPath(out, name), kReportFile));
    return InvalidError("OUT_NOT_EMPTY",
                        fmt::format("{} holds {}, which is not part of this result; give another "
                                    "--out, or {}",
                                    out, name,
                                    result ? "--replace (of assay score), which keeps the results "
                                             "of other candidates in " +
                                                 JoinPath(out, kReplacedFolder)
                                           : "empty the folder"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, PositionArrays>> FetchArrays(Client* client, const Json& info,
                                                                  const std::string& where) {
  std::map<std::string, PositionArrays> heads;
  if (!info.contains("arrays")) return heads;
  for (const Json& array : info.at("arrays")) {
    const std::string head = array.value("head", ""), output = array.value("output", "");
    const std::string name = fmt::format("{}: {}/{}", where, head, output);
    const Json file = array.value("file", Json());
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadRef(client, file, kArrayBytesMax));
    ASSAY_RETURN_IF_ERROR(PlaceArray(output, bytes, name, &heads[head]));
  }
  return heads;
}

absl::StatusOr<SummaryCandidate> FetchReport(Client* client, const std::string& report,
                                             const std::string& out, const std::string& label) {
  ASSAY_ASSIGN_OR_RETURN(const Json info, client->GetReport(report));
  CandidateFiles files;
  ASSAY_ASSIGN_OR_RETURN(files.report, ReadRef(client, info["report"], kReportBytesMax));
  ASSAY_ASSIGN_OR_RETURN(files.execution, ReadRef(client, info["execution"], kExecutionBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const auto heads, FetchArrays(client, info, report));
  for (const auto& [head, arrays] : heads) files.heads[head] = &arrays;
  SummaryCandidate candidate;
  candidate.label = label;
  candidate.report_sha256 = info["report"].value("sha256", "");
  if (const std::string receipt = info.value("receipt", ""); !receipt.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const Json receipt_info, client->GetReceipt(receipt));
    ASSAY_ASSIGN_OR_RETURN(files.receipt,
                           ReadRef(client, receipt_info["receipt"], kReceiptBytesMax));
    ASSAY_ASSIGN_OR_RETURN(candidate.receipt_id, ReceiptId(*files.receipt));
  }
  ASSAY_ASSIGN_OR_RETURN(candidate.report, ParseReport(files.report, report));
  ASSAY_RETURN_IF_ERROR(WriteCandidateFiles(out, label, files));
  return candidate;
}

absl::StatusOr<FetchedRun> FetchRun(Client* client, const Json& run, const std::string& out,
                                    const std::function<void(size_t done, size_t total)>& progress,
                                    const SummaryOptions& options) {
  FetchedRun fetched;
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(out));
  const Json& candidates = run["candidates"];
  for (const Json& row : candidates) {
    const std::string label = row.value("label", "");
    absl::Status status = StatusFromErrorJson(row["error"]);
    SummaryCandidate candidate;
    candidate.label = label;
    if (row.value("state", "") == "SEALED") {
      ASSAY_ASSIGN_OR_RETURN(candidate, FetchReport(client, row.value("report", ""), out, label));
      status = absl::OkStatus();
      ++fetched.sealed;
    } else {
      if (status.ok()) {
        status = InternalError("CANDIDATE_NOT_SEALED",
                               fmt::format("the candidate ended as {}", row.value("state", "?")));
      }
      candidate.failed_reason = ReasonOf(status);
      candidate.failed_message = MessageOf(status);
    }
    fetched.candidates.push_back(std::move(candidate));
    fetched.statuses.push_back(std::move(status));
    if (progress) progress(fetched.candidates.size(), candidates.size());
  }
  ASSAY_ASSIGN_OR_RETURN(fetched.summary, BuildSummary(fetched.candidates, options));
  std::string pem;
  if (fetched.sealed > 0) {
    ASSAY_ASSIGN_OR_RETURN(const Json key, client->GetPublicKey());
    pem = key.value("pem", "");
    ASSAY_RETURN_IF_ERROR(WriteKeyList(key, out));
  }
  ASSAY_RETURN_IF_ERROR(WriteSummaryFiles(out, fetched.summary, fetched.candidates, pem));
  return fetched;
}

}  // namespace assay
