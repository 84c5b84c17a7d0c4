#include "client/cli/report_files.h"

#include <utility>

#include "client/lib/results.h"
#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/report.h"
#include "storage/seal/receipt.h"

namespace assay {
namespace {

absl::StatusOr<NamedResult> ReadOne(const std::string& path) {
  NamedResult result;
  result.folder = DirName(path);
  ASSAY_ASSIGN_OR_RETURN(result.bytes, ReadFile(path, kReportBytesMax));
  ASSAY_ASSIGN_OR_RETURN(result.candidate.report, ParseReport(result.bytes, path));
  result.candidate.report_sha256 = Sha256Hex(result.bytes);
  result.candidate.label = BaseName(result.folder);
  if (!CheckLabel(result.candidate.label).ok()) result.candidate.label = "candidate";
  const std::string receipt = JoinPath(result.folder, kReceiptFile);
  if (FileExists(receipt)) {
    ASSAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(receipt, kReceiptBytesMax));
    ASSAY_ASSIGN_OR_RETURN(result.candidate.receipt_id, ReceiptId(text));
  }
  return result;
}

absl::StatusOr<std::vector<NamedResult>> ReadRun(const std::string& out) {
  const std::string path = JoinPath(out, kSummaryFile);
  ASSAY_ASSIGN_OR_RETURN(const Json summary, ReadJsonFile(path, kReportBytesMax));
  std::vector<NamedResult> results;
  const Json candidates = summary.is_object() ? summary.value("candidates", Json()) : Json();
  for (const Json& entry : candidates) {
    const std::string label = entry.is_object() ? entry.value("label", "") : "";
    ASSAY_RETURN_IF_ERROR(Annotate(CheckLabel(label), path));
    const Json failed = entry.value("failed", Json());
    if (failed.is_object()) {
      NamedResult result;
      result.candidate.label = label;
      result.candidate.failed_reason = failed.value("reason", "UNKNOWN");
      result.candidate.failed_message = failed.value("message", "");
      results.push_back(std::move(result));
      continue;
    }
    ASSAY_ASSIGN_OR_RETURN(NamedResult result,
                           ReadOne(JoinPath(JoinPath(out, label), kReportFile)));
    results.push_back(std::move(result));
  }
  if (results.empty()) return InvalidError("SUMMARY_INVALID", path + ": it names no candidate");
  return results;
}

// Neither a file or folder nor, as far as that was asked, a report of a coordinator.
absl::Status NoSuchResult(const std::string& given, const std::string& coordinator) {
  return NotFoundError(
      "REPORT_MISSING",
      fmt::format("there is no file or folder {}; give a candidate's folder, the --out folder of a "
                  "run, a report.json, or a coordinator's reports/ID{}{}",
                  given, coordinator.empty() ? "" : ". As a report's name: ", coordinator));
}

}  // namespace

std::string FullName(const std::string& kind, const std::string& text) {
  return text.rfind(kind + "/", 0) == 0 ? text : kind + "/" + text;
}

absl::StatusOr<std::vector<NamedResult>> ReadLocalResults(const std::string& given) {
  if (IsPackedResult(given)) {
    ASSAY_ASSIGN_OR_RETURN(const auto unpacked, UnpackedResult::Open(given));
    ASSAY_ASSIGN_OR_RETURN(auto results, ReadLocalResults(unpacked->folder()));
    for (NamedResult& result : results) result.unpacked = unpacked;
    return results;
  }
  if (!IsDirectory(given)) {
    ASSAY_ASSIGN_OR_RETURN(NamedResult result, ReadOne(given));
    std::vector<NamedResult> results;
    results.push_back(std::move(result));
    return results;
  }
  const std::string report = JoinPath(given, kReportFile);
  if (FileExists(report)) return ReadLocalResults(report);
  if (FileExists(JoinPath(given, kSummaryFile))) return ReadRun(given);
  return NotFoundError("REPORT_MISSING",
                       given +
                           " holds no report.json and no summary.json; give a candidate's folder, "
                           "which lies in the --out of a run, that --out folder, or the file");
}

absl::StatusOr<NamedResults> FindResults(const std::string& given, const SessionOptions& options,
                                         const std::string& command) {
  NamedResults found;
  // Said at once: where it looks like a path, a coordinator's answer about names explains nothing.
  const bool path_like = given.find('/') != std::string::npos && given.rfind("reports/", 0) != 0;
  if (path_like && !FileExists(given) && !IsDirectory(given)) return NoSuchResult(given, "");
  if (FileExists(given) || IsDirectory(given)) {
    ASSAY_ASSIGN_OR_RETURN(found.results, ReadLocalResults(given));
    return found;
  }
  ASSAY_ASSIGN_OR_RETURN(found.session, Session::OpenToRead(options, command));
  const std::string name = FullName("reports", given);
  NamedResult result;
  absl::StatusOr<Json> info =
      WithListAdvice(found.session->client().GetReport(name), "report list", options.server);
  if (!info.ok() && absl::IsNotFound(info.status())) {
    return NoSuchResult(given, MessageOf(info.status()));
  }
  ASSAY_ASSIGN_OR_RETURN(result.info, std::move(info));
  ASSAY_ASSIGN_OR_RETURN(result.bytes,
                         found.session->client().blobs().ReadBytes(
                             result.info["report"].value("sha256", ""), kReportBytesMax));
  ASSAY_ASSIGN_OR_RETURN(result.candidate.report, ParseReport(result.bytes, name));
  result.candidate.report_sha256 = Sha256Hex(result.bytes);
  result.candidate.label = result.info.value("label", "candidate");
  const std::string receipt = result.info.value("receipt", "");
  result.candidate.receipt_id = receipt.substr(std::min(receipt.size(), receipt.find('/') + 1));
  found.results.push_back(std::move(result));
  return found;
}

absl::StatusOr<std::string> ChooseHead(const NamedResult& result, const std::string& asked) {
  const Json& heads = result.candidate.report.at("heads");
  const std::string own(kHeadOwn);
  const std::string head = !asked.empty()        ? asked
                           : heads.contains(own) ? own
                                                 : std::string(kHeadShared);
  if (heads.contains(head)) return head;
  return InvalidError("HEAD_NOT_SCORED",
                      fmt::format("{} has no result of head {}; it has {}", result.candidate.label,
                                  head, heads.items().begin().key()));
}

absl::StatusOr<PositionArrays> ReadArrays(const NamedResults& all, const NamedResult& result,
                                          const std::string& head) {
  const Json& report = result.candidate.report;
  PositionArrays arrays;
  if (result.folder.empty()) {
    ASSAY_ASSIGN_OR_RETURN(auto heads, FetchArrays(&all.session->client(), result.info,
                                                   result.info.value("name", "report")));
    arrays = std::move(heads[head]);
  } else {
    const std::string folder = JoinPath(JoinPath(result.folder, kPositionsFolder), head);
    if (!IsDirectory(folder)) {
      return NotFoundError("FILE_MISSING",
                           folder +
                               " does not exist; the values of every position are needed: "
                               "give the candidate's folder as it was written or fetched");
    }
    ASSAY_ASSIGN_OR_RETURN(
        arrays, ReadPositionFolder(folder, report.at("coverage").at("positions").get<uint64_t>()));
  }
  const Json& expected = report.at("heads").at(head).at("arrays");
  const auto check = [&](const std::string& file, const std::string& bytes) -> absl::Status {
    if (Sha256Hex(bytes) == expected.at(file).at("sha256")) return absl::OkStatus();
    return DataLossError("DIGEST_MISMATCH",
                         fmt::format("{}: {}/{} is not the file that the report names",
                                     result.candidate.label, head, file));
  };
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    ASSAY_RETURN_IF_ERROR(
        check(PositionFileName(static_cast<F64Output>(i)), F64Bytes(arrays.f64[i])));
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    ASSAY_RETURN_IF_ERROR(
        check(PositionFileName(static_cast<I32Output>(i)), I32Bytes(arrays.i32[i])));
  }
  return arrays;
}

}  // namespace assay
