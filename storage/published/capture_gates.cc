// The gates of a capture folder, in the order of qwen-suites 2.5.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/for_each_index.h"
#include "storage/base/macros.h"
#include "storage/base/open_regular.h"
#include "storage/base/status.h"
#include "storage/dataset/finding.h"
#include "storage/dataset/verify.h"
#include "storage/format/links.h"
#include "storage/format/safetensors.h"
#include "storage/published/capture_folder.h"

namespace assay {
namespace {

constexpr uint64_t kPieceBytes =
    256 << 10;  // stays in cache between its digest and the look at its values

// Whether any value has an exponent of all ones, eight bytes at a time: added to such an exponent
// alone, `one` reaches the sign bit. `exponent`, `one` and `sign` are those of each value in 64
// bits.
bool AnyNonFinite(std::span<const uint8_t> bytes, uint64_t exponent, uint64_t one, uint64_t sign) {
  uint64_t any = 0, values = 0;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::memcpy(&values, bytes.data() + at, 8);
    any |= (values & exponent) + one;
  }
  values = 0;  // no exponent is all ones there
  if (at < bytes.size()) std::memcpy(&values, bytes.data() + at, bytes.size() - at);
  any |= (values & exponent) + one;
  return (any & sign) != 0;
}

bool HasNonFinite(std::span<const uint8_t> bytes, DType dtype) {
  if (dtype == DType::kF32)
    return AnyNonFinite(bytes, 0x7f8000007f800000u, 0x0080000000800000u, 0x8000000080000000u);
  return AnyNonFinite(bytes, 0x7f807f807f807f80u, 0x0080008000800080u, 0x8000800080008000u);
}

// What one pass over a hidden file tells.
struct Scan {
  std::string sha256;
  bool finite = true;
};

// Closes a descriptor at the end of a scope.
struct OpenFd {
  int fd;
  ~OpenFd() { close(fd); }
};

// Reads `path` once: its digest, and whether the values in [begin, end) are finite. Values start at
// `begin`, so pieces never cut one.
absl::StatusOr<Scan> ScanFile(const std::string& path, uint64_t begin, uint64_t end, DType dtype) {
  ASSAY_ASSIGN_OR_RETURN(const int fd, OpenRegular(path));
  const OpenFd closer{fd};
  Sha256 hash;
  Scan out;
  std::vector<uint8_t> buffer(kPieceBytes);
  uint64_t at = 0;
  for (;;) {
    const uint64_t want = at < begin ? std::min(begin - at, kPieceBytes) : kPieceBytes;
    uint64_t have = 0;
    while (have < want) {
      const ssize_t n = read(fd, buffer.data() + have, want - have);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "reading " + path);
      if (n == 0) break;
      have += static_cast<uint64_t>(n);
    }
    if (have == 0) break;
    const std::span<const uint8_t> piece(buffer.data(), have);
    hash.Update(piece);
    if (at >= begin && at < end)
      out.finite = out.finite && !HasNonFinite(piece.first(std::min(have, end - at)), dtype);
    at += have;
  }
  out.sha256 = hash.FinishHex();
  return out;
}

// One recorded file; each status is of one gate.
struct FileFindings {
  absl::Status tensor, digest, finite;
};

FileFindings CheckFile(const CaptureFolder& folder, const CaptureRecord& record) {
  FileFindings out;
  const std::string path = JoinPath(folder.dir, HiddenFileName(record.index));
  uint64_t begin = 0, end = 0;
  DType dtype = DType::kBF16;
  const auto mapping = MappedFile::Open(path);
  if (!mapping.ok()) {
    out.tensor = out.digest = mapping.status();
    return out;
  }
  const auto file = SafetensorsFile::Parse((*mapping)->bytes(), path);
  out.tensor = file.ok() ? CheckHiddenFile(**file, record.rows, record.width) : file.status();
  if (out.tensor.ok()) {
    const TensorView view = *(*file)->Find(kHiddenTensorName);
    begin = static_cast<uint64_t>(view.bytes.data() - (*mapping)->bytes().data());
    end = begin + view.bytes.size();
    dtype = view.dtype;
  }
  const auto scan = ScanFile(path, begin, end, dtype);
  if (!scan.ok()) {
    out.digest = scan.status();
    return out;
  }
  if (scan->sha256 != record.sha256) {
    out.digest = DataLossError("DIGEST_MISMATCH", path + ": SHA-256 is " + scan->sha256 +
                                                      ", the manifest states " + record.sha256);
  }
  if (!scan->finite)
    out.finite = InvalidError("NON_FINITE_HIDDEN", path + ": holds NaN or infinity");
  return out;
}

// The first failures of many files, and how many there are.
class Failures {
 public:
  void Add(const absl::Status& status) {
    if (status.ok()) return;
    if (count_++ < kShown) text_ += (text_.empty() ? "" : "; ") + MessageOf(status);
  }
  void Report(PublishedExamination* out, const char* gate, const std::string& good) const {
    AddCheck(out, gate, count_ == 0,
             count_ == 0       ? good
             : count_ > kShown ? text_ + "; and " + std::to_string(count_ - kShown) + " more"
                               : text_);
  }

 private:
  static constexpr int64_t kShown = 3;
  int64_t count_ = 0;
  std::string text_;
};

std::string Names(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < 4; ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > 4) out += " and " + std::to_string(names.size() - 4) + " more";
  return out;
}

void CheckManifest(const CaptureFolder& folder, PublishedExamination* out) {
  const CaptureManifest& manifest = folder.manifest;
  AddCheck(out, "form", true,
           manifest.legacy ? "accepted under the rule " + std::string(kLegacyCaptureRule)
                           : manifest.schema);
  if (manifest.legacy) {
    AddNotApplicable(out, "complete", "not stated; the rule stands for it");
  } else {
    AddCheck(out, "complete", manifest.complete,
             manifest.complete ? "the manifest says so, and its records are the expected ones"
                               : "the manifest was left in the middle of a capture; finish it");
  }
  AddCheck(out, "records", true,
           std::to_string(manifest.records.size()) +
               " contexts, each once, with digest and shape; the count agrees");
  const Json& contract = DatasetMember(manifest.json, {"capture_contract"});
  if (contract.is_object()) {
    AddEqual(out, "contract", DatasetMember(manifest.json, {"capture_contract_sha256"}),
             Sha256Hex(PythonCanonJson(contract)));
  } else {
    AddNotApplicable(out, "contract", "this form has none");
  }
  const std::string& bytes = folder.manifest_bytes;
  if (PythonPrettyJson(manifest.json) == bytes) {
    AddCheck(out, "layout", true, "the publisher's, byte for byte");
  } else {
    AddNotApplicable(out, "layout", "another one than the publisher's; nothing depends on it");
  }
}

void CheckAgainstSuite(const CaptureFolder& folder, const CaptureCheckOptions& options,
                       PublishedExamination* out) {
  const CaptureManifest& manifest = folder.manifest;
  if (options.suite == nullptr) {
    AddNotChecked(out, "suite", "give the suite's folder with --suite");
    AddNotChecked(out, "coverage", "needs the suite");
    return;
  }
  const Suite& suite = *options.suite;
  const bool own = suite.suite_token_sha256 == manifest.suite_token_sha256;
  const bool length =
      manifest.context_length == 0 || manifest.context_length == suite.context_length;
  AddCheck(out, "suite", own && length,
           !own ? "captured over suite " + manifest.suite_token_sha256 + ", this one is " +
                      suite.suite_token_sha256
           : !length ? "its contexts have another length"
                     : "captured over these token ids");
  const std::string filter = !options.filter.empty() ? options.filter : manifest.filter;
  const auto selected = SelectContexts(suite, filter);
  if (!selected.ok()) return AddCheck(out, "coverage", false, MessageOf(selected.status()));
  std::set<int64_t> left;
  for (const size_t position : *selected) left.insert(suite.contexts[position].index);
  size_t foreign = 0, wrong_rows = 0;
  for (const CaptureRecord& record : manifest.records) {
    if (left.erase(record.index) == 0 && options.filter.empty()) ++foreign;
    if (record.rows != static_cast<uint64_t>(suite.context_length) - 1) ++wrong_rows;
  }
  const bool good = left.empty() && foreign == 0 && wrong_rows == 0;
  AddCheck(out, "coverage", good,
           good ? std::to_string(selected->size()) + " contexts of filter \"" +
                      (filter.empty() ? "all" : filter) + "\", all captured"
                : std::to_string(left.size()) + " contexts are not captured, " +
                      std::to_string(foreign) + " are outside the filter, " +
                      std::to_string(wrong_rows) + " have another number of rows");
}

void CheckFiles(const CaptureFolder& folder, const CaptureCheckOptions& options,
                PublishedExamination* out) {
  const auto& records = folder.manifest.records;
  AddCheck(out, "files", folder.missing.empty() && folder.unlisted.empty(),
           !folder.missing.empty() ? "missing: " + Names(folder.missing)
           : !folder.unlisted.empty()
               ? "no record names " + Names(folder.unlisted) + "; nothing vouches for them"
               : "every recorded file is there, and no other");
  std::vector<std::string> names = {BaseName(folder.manifest_path)};
  std::vector<const CaptureRecord*> present;
  std::set<uint64_t> widths;
  for (const CaptureRecord& record : records) {
    widths.insert(record.width);
    const std::string name = HiddenFileName(record.index);
    if (std::find(folder.missing.begin(), folder.missing.end(), name) != folder.missing.end())
      continue;
    names.push_back(name);
    present.push_back(&record);
  }
  const absl::Status links = CheckLinksStayInside(folder.dir, names, "capture");
  AddCheck(out, "links", links.ok(),
           links.ok() ? "every file lies in the folder, or in the blobs of its cache"
                      : MessageOf(links));
  if (!links.ok()) return AddNotChecked(out, "digests", "the links are not followed");
  std::vector<FileFindings> findings(present.size());
  (void)ForEachIndex(static_cast<int64_t>(present.size()), options.threads, [&](int64_t i) {
    findings[static_cast<size_t>(i)] = CheckFile(folder, *present[static_cast<size_t>(i)]);
    return absl::OkStatus();
  });
  Failures digests, tensors, finite;
  if (widths.size() > 1)
    tensors.Add(InvalidError("SHAPE_MISMATCH", "the records have several widths"));
  for (const FileFindings& file : findings) {
    digests.Add(file.digest);
    tensors.Add(file.tensor);
    finite.Add(file.finite);
  }
  digests.Report(out, "digests", std::to_string(present.size()) + " files as recorded");
  tensors.Report(out, "tensors", "hidden_states, BF16 or F32, with the recorded rows and columns");
  finite.Report(out, "finite", "no NaN and no infinity");
}

void CheckIdentity(const CaptureFolder& folder, PublishedExamination* out) {
  const Json& json = folder.manifest.json;
  if (DatasetMember(json, {"cut_point"}).is_null()) {
    AddNotApplicable(out, "cut point",
                     "not stated; this form is taken " + std::string(kDefaultCutPoint));
  } else {
    AddCheck(out, "cut point", folder.manifest.cut_point == kDefaultCutPoint,
             folder.manifest.cut_point);
  }
  const Json& identity = DatasetMember(json, {"candidate_identity"});
  const bool pinned = !DatasetMember(identity, {"model_revision"}).is_null() ||
                      DatasetMember(identity, {"shard_sha256"}).is_object() ||
                      !DatasetMember(identity, {"assay_model"}).is_null();
  if (pinned) {
    AddCheck(out, "identity", true, "the model is named by revision or by its files' digests");
  } else {
    AddNotApplicable(out, "identity", "nothing says which model it is, but for a name");
  }
  if (folder.form == CaptureForm::kGlm) {
    const std::string full = JoinPath(folder.dir, "capture-manifest-full.json");
    if (FileExists(full)) {
      AddNotChecked(out, "full manifest",
                    "capture-manifest-full.json speaks of contexts that were not published; "
                    "what is here is what the shard's manifest lists");
    }
  }
  if (!folder.uncovered.empty())
    AddNotChecked(out, "other files", "not covered: " + Names(folder.uncovered));
}

// The dataset's own gates, then its findings by code and rule.
PublishedExamination ExamineDatasetFolder(const std::string& dir, bool allow_partial) {
  DatasetOptions options;
  options.allow_partial = allow_partial;
  const DatasetVerdict verdict = VerifyDataset(dir, options);
  PublishedExamination out;
  out.what = "fidelity dataset";
  out.schema = DatasetString(DatasetMember(verdict.documents.manifest, {"schema"})).value_or("");
  for (const DatasetGate& gate : verdict.gates) {
    AddCheck(&out, gate.name, gate.passed, gate.passed ? "as published" : "see the findings below");
  }
  for (const Finding& finding : verdict.findings.errors)
    AddCheck(&out, finding.code + " [" + finding.rule + "]", false, finding.message);
  for (const Finding& finding : verdict.findings.warnings)
    AddNotChecked(&out, finding.code + " [" + finding.rule + "]", "warning: " + finding.message);
  return out;
}

}  // namespace

PublishedExamination ExamineCaptureFolder(const std::string& dir,
                                          const CaptureCheckOptions& options) {
  if (IsDatasetFolder(dir)) return ExamineDatasetFolder(dir, options.allow_partial);
  PublishedExamination out;
  out.what = "captured hidden states";
  const auto folder = ReadCaptureFolder(dir);
  if (!folder.ok()) {
    AddCheck(&out, "manifest", false, MessageOf(folder.status()));
    return out;
  }
  out.schema = folder->manifest.legacy ? "none" : folder->manifest.schema;
  AddCheck(&out, "manifest", true,
           BaseName(folder->manifest_path) + ", SHA-256 " + Sha256Hex(folder->manifest_bytes));
  CheckManifest(*folder, &out);
  CheckAgainstSuite(*folder, options, &out);
  CheckFiles(*folder, options, &out);
  CheckIdentity(*folder, &out);
  return out;
}

}  // namespace assay
