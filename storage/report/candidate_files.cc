#include "storage/report/candidate_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/temporary_file.h"

namespace assay {
namespace {

constexpr size_t kLabelMax = 128;
constexpr std::array<std::string_view, 8> kReserved = {
    kSummaryFile,    kSummaryCsvFile, kSummaryMarkdownFile, kPublicKeyFile,
    kVerifyTextFile, kReplacedFolder, kIndexPageFile,       kKeyListFile};

absl::Status WriteArrays(const std::string& folder, const PositionArrays& arrays) {
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(folder));
  for (size_t i = 0; i < kF64Outputs.size(); ++i) {
    const std::string path = JoinPath(folder, PositionFileName(static_cast<F64Output>(i)));
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(path, F64Bytes(arrays.f64[i])));
  }
  for (size_t i = 0; i < kI32Outputs.size(); ++i) {
    const std::string path = JoinPath(folder, PositionFileName(static_cast<I32Output>(i)));
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(path, I32Bytes(arrays.i32[i])));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLabel(std::string_view label) {
  const bool characters = std::all_of(label.begin(), label.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  const bool reserved = std::find(kReserved.begin(), kReserved.end(), label) != kReserved.end();
  if (label.empty() || label.size() > kLabelMax || !characters || reserved || label == "." ||
      label == "..") {
    return InvalidError("LABEL_INVALID",
                        "label \"" + std::string(label.substr(0, kLabelMax)) +
                            "\" must be 1 to 128 characters of A-Z a-z 0-9 . _ - and no name that "
                            "the output folder uses itself; give one as LABEL=MODEL");
  }
  return absl::OkStatus();
}

absl::StatusOr<LabelledText> SplitLabel(std::string_view text) {
  const std::string whole(text);
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || FileExists(whole)) return LabelledText{"", whole};
  LabelledText split{whole.substr(0, equals), whole.substr(equals + 1)};
  const bool like_a_path = split.label.find_first_of("/@") != std::string::npos;
  const std::string file = split.value.substr(0, split.value.rfind('@'));
  if (like_a_path && !FileExists(split.value) && !FileExists(file)) return LabelledText{"", whole};
  ASSAY_RETURN_IF_ERROR(CheckLabel(split.label));
  return split;
}

absl::Status WriteCandidateFiles(const std::string& out, std::string_view label,
                                 const CandidateFiles& files) {
  ASSAY_RETURN_IF_ERROR(CheckLabel(label));
  const std::string folder = JoinPath(out, label);
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(folder));
  // Of a command that was killed while it wrote.
  for (const std::string& place : {out, folder}) ASSAY_RETURN_IF_ERROR(RemoveTemporaries(place));
  const std::string receipt = JoinPath(folder, kReceiptFile);
  if (unlink(receipt.c_str()) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "removing " + receipt);
  }
  const std::string positions = JoinPath(folder, kPositionsFolder);
  ASSAY_RETURN_IF_ERROR(RemoveTree(positions));  // of an earlier run, perhaps with other heads
  for (const auto& [head, arrays] : files.heads) {
    ASSAY_RETURN_IF_ERROR(WriteArrays(JoinPath(positions, head), *arrays));
  }
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, kExecutionFile), files.execution));
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, kReportFile), files.report));
  return files.receipt ? WriteFileAtomic(receipt, *files.receipt) : absl::OkStatus();
}

}  // namespace assay
