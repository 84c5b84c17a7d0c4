#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"
#include "storage/report/report.h"
#include "storage/seal/gates.h"
#include "storage/seal/receipt.h"
#include "storage/seal/verify.h"
#include "storage/seal/verify_summary.h"
#include "storage/seal/verify_uncovered.h"

namespace assay {
namespace {

constexpr uint64_t kExecutionBytesMax = uint64_t{1} << 28;

// What holds for all of a result.
struct Context {
  const Trust& trusted;
  bool without_positions = false;
};

absl::Status Missing(const std::string& path, const std::string& what) {
  return NotFoundError("FILE_MISSING", path + ": " + what);
}

absl::Status CheckArrayFile(const std::string& path, const Json& entry) {
  const JsonFields fields(entry, path);
  ASSAY_ASSIGN_OR_RETURN(const int64_t expected, fields.Int("bytes", 0, INT64_MAX));
  ASSAY_ASSIGN_OR_RETURN(const std::string sha256, fields.Sha256("sha256"));
  if (!FileExists(path)) {
    return Missing(path, "the report names it, but it is not there; fetch it from the service");
  }
  ASSAY_ASSIGN_OR_RETURN(const uint64_t size, FileSize(path));
  if (size != static_cast<uint64_t>(expected)) {
    return DataLossError("DIGEST_MISMATCH",
                         path + ": has " + std::to_string(size) + " bytes, the report names " +
                             std::to_string(expected) + "; fetch the file again");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string digest, Sha256File(path));
  if (digest == sha256) return absl::OkStatus();
  return DataLossError("DIGEST_MISMATCH", path + ": has SHA-256 " + digest + ", the report names " +
                                              sha256 + "; the file was changed, fetch it again");
}

// Digests of every array of one head, then its statistics recomputed from them.
void CheckHead(const Json& report, const std::string& head, const std::string& folder,
               const std::string& report_path, const std::string& subject, GateList* gates) {
  absl::Status status;
  for (const auto& [file, entry] : report.at("heads").at(head).at("arrays").items()) {
    if (!IsSafeRelativePath(file) || !status.ok()) continue;
    status = CheckArrayFile(JoinPath(folder, file), entry);
  }
  if (!gates->Check(subject, "arrays/" + head, status,
                    "every array under " + folder + " has its digest")) {
    return;
  }
  uint64_t positions = 0;
  for (const Json& row : report.at("heads").at(head).at("contexts")) {
    positions += row.at("positions").get<uint64_t>();
  }
  const auto arrays = ReadPositionFolder(folder, positions);
  gates->Check(subject, "statistics/" + head,
               arrays.ok() ? RecheckHead(report, head, *arrays, report_path) : arrays.status(),
               "recomputed from the arrays, equal");
}

// The report, or null when it is none.
Json CheckReport(const std::string& bytes, const std::string& folder,
                 const std::string& report_path, const Context& context, const std::string& subject,
                 GateList* gates) {
  auto report = ParseReport(bytes, report_path);
  if (!gates->Check(subject, "report-form", report.status(),
                    report_path + " is canonical assay-report/1")) {
    return Json();
  }
  const std::string positions = JoinPath(folder, kPositionsFolder);
  if (!IsDirectory(positions) && context.without_positions) {
    gates->Skip(subject, "arrays",
                "the per-position arrays were left out when the result was packed, so no statistic "
                "was recomputed; ask for a file packed without --no-positions");
    return *std::move(report);
  }
  if (!IsDirectory(positions)) {
    gates->Check(subject, "arrays",
                 Missing(positions,
                         "the per-position arrays are missing, so the statistics cannot "
                         "be recomputed; fetch them from the service"),
                 "");
    return *std::move(report);
  }
  for (const auto& [head, value] : report->at("heads").items()) {
    CheckHead(*report, head, JoinPath(positions, head), report_path, subject, gates);
  }
  gates->Check(subject, "statistics/across-heads", RecheckAcrossHeads(*report, report_path),
               "coverage and differences recomputed, equal");
  return *std::move(report);
}

// True when keys.json of the folder follows one of the keys to the other.
bool InKeyList(const std::string& folder, const PublicKey& a, const PublicKey& b) {
  const std::string path = JoinPath(folder, kKeyListFile);
  const auto bytes = ReadFile(path, kKeyListBytesMax);
  if (!bytes.ok()) return false;
  const auto list = KeyList::Parse(*bytes, path);
  return list.ok() && list->Find(a) != nullptr && list->Find(b) != nullptr;
}

// key.pub of the folder or of the one above it: it must be the key that signed, or keys.json beside
// it must say that the one followed the other.
void CheckPublicKeyFile(const std::string& folder, const PublicKey& key, const std::string& subject,
                        GateList* gates) {
  const std::string above = folder == "." ? ".." : DirName(folder);
  for (const std::string& place : {folder, above}) {
    const std::string path = JoinPath(place, kPublicKeyFile);
    if (!FileExists(path)) continue;
    const auto file_key = PublicKey::FromFile(path);
    absl::Status status = file_key.status();
    if (status.ok() && !(*file_key == key) && !InKeyList(place, *file_key, key)) {
      status = DataLossError("KEY_MISMATCH", path + ": is not the key that signed the receipt");
    }
    gates->Check(subject, "public-key-file", status, path + " is the signing key");
    return;
  }
  gates->Skip(subject, "public-key-file", "there is no key.pub");
}

void CheckCandidate(const std::string& folder, const std::string& receipt_name,
                    const Context& context, const std::string& subject, GateList* gates) {
  const ReceiptNames names = {JoinPath(folder, receipt_name), JoinPath(folder, kReportFile),
                              JoinPath(folder, kExecutionFile)};
  std::optional<std::string> report, execution;
  const auto read = [&](const std::string& path, uint64_t limit, const char* gate,
                        std::optional<std::string>* out) {
    absl::StatusOr<std::string> bytes = ReadFile(path, limit);
    if (bytes.ok()) {
      *out = std::move(bytes).value();
    } else {
      gates->Fail(subject, gate, ReasonOf(bytes.status()),
                  MessageOf(bytes.status()) + "; fetch it from the service");
    }
  };
  read(names.report, kReportBytesMax, "report-file", &report);
  read(names.execution, kExecutionBytesMax, "execution-file", &execution);
  const auto receipt = ReadFile(names.receipt, kReceiptBytesMax);
  if (receipt.ok()) {
    const auto key =
        CheckReceiptGates(*receipt, report, execution, context.trusted, names, subject, gates);
    if (key) CheckPublicKeyFile(folder, *key, subject, gates);
  } else if (ReasonOf(receipt.status()) == "FILE_MISSING") {
    gates->Fail(subject, "receipt", "RECEIPT_MISSING",
                names.receipt +
                    ": there is none; this result is UNSEALED and nobody vouches for "
                    "it. Score it with assay score to get a receipt");
  } else {
    gates->Fail(subject, "receipt", ReasonOf(receipt.status()), MessageOf(receipt.status()));
  }
  const Json parsed =
      report ? CheckReport(*report, folder, names.report, context, subject, gates) : Json();
  ListUncoveredOfCandidate(folder, receipt_name, parsed, subject, gates);
}

// A receipt with no report beside it: what it says about itself.
void CheckLoneReceipt(const std::string& path, const Trust& trusted, GateList* gates) {
  const auto bytes = ReadFile(path, kReceiptBytesMax);
  if (!bytes.ok()) {
    gates->Fail(path, "receipt", ReasonOf(bytes.status()), MessageOf(bytes.status()));
    return;
  }
  const ReceiptNames names = {path, std::string(kReportFile), std::string(kExecutionFile)};
  const auto key =
      CheckReceiptGates(*bytes, std::nullopt, std::nullopt, trusted, names, BaseName(path), gates);
  if (key) CheckPublicKeyFile(DirName(path), *key, BaseName(path), gates);
}

bool IsCandidateFolder(const std::string& folder) {
  return FileExists(JoinPath(folder, kReportFile)) || FileExists(JoinPath(folder, kReceiptFile));
}

void CheckFolder(const std::string& path, const Context& context, GateList* gates) {
  if (IsCandidateFolder(path)) {
    CheckCandidate(path, std::string(kReceiptFile), context, BaseName(path), gates);
    return;
  }
  const auto names = ListDirectory(path);
  if (!names.ok()) {
    gates->Fail(path, "folder", ReasonOf(names.status()), MessageOf(names.status()));
    return;
  }
  bool found = false;
  for (const std::string& name : *names) {
    const std::string folder = JoinPath(path, name);
    if (!IsDirectory(folder) || !IsCandidateFolder(folder)) continue;
    found = true;
    CheckCandidate(folder, std::string(kReceiptFile), context, name, gates);
  }
  if (!found && !FileExists(JoinPath(path, kSummaryFile))) {
    gates->Fail(path, "folder", "NOTHING_TO_VERIFY",
                path +
                    ": holds no summary.json, report.json or receipt.json, nor does a folder in "
                    "it; give the --out folder of a run, one candidate's folder or a receipt");
    return;
  }
  CheckSummaryFiles(path, gates);
  ListUncoveredOfRun(path, gates);
}

}  // namespace

void CheckPath(std::string path, const Trust& trust, GateList* gates, bool without_positions) {
  const Context context = {trust, without_positions};
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (IsDirectory(path)) {
    CheckFolder(path, context, gates);
  } else if (FileExists(path)) {
    const std::string folder = DirName(path);
    if (FileExists(JoinPath(folder, kReportFile))) {
      CheckCandidate(folder, BaseName(path), context, BaseName(path), gates);
    } else {
      CheckLoneReceipt(path, trust, gates);
    }
  } else {
    const absl::Status status = Missing(path, "there is no such file or folder");
    gates->Fail(path, "path", ReasonOf(status), MessageOf(status));
  }
}

Verification VerifyDirectory(const std::string& path, const std::string& key_path,
                             bool without_positions) {
  GateList gates;
  Trust trusted;
  if (!key_path.empty()) {
    auto given = Trust::FromFile(key_path);
    if (!given.ok()) {
      gates.Fail(key_path, "trusted-key", ReasonOf(given.status()), MessageOf(given.status()));
      return gates.Finish(false);
    }
    trusted = *std::move(given);
  }
  CheckPath(path, trusted, &gates, without_positions);
  return gates.Finish(!trusted.keys.empty());
}

}  // namespace assay
