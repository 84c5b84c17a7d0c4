#include "storage/dataset/overlap.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/tree.h"

namespace assay {
namespace {

constexpr uint64_t kDocumentBytesMax = uint64_t{1} << 30;
constexpr int64_t kTokenMax = (int64_t{1} << 31) - 1;
constexpr char kFinal[] = "final";

// 128 bits of SHA-256: what is asked is only whether runs are equal.
using Run = std::array<uint8_t, 16>;

std::vector<Run> DistinctRuns(const std::vector<int32_t>& tokens) {
  std::vector<Run> out;
  for (size_t i = 0; i + kOverlapRun <= tokens.size(); ++i) {
    const std::string_view bytes(reinterpret_cast<const char*>(tokens.data() + i),
                                 kOverlapRun * sizeof(int32_t));
    const DigestBytes digest = Sha256Of(bytes);
    Run run;
    std::memcpy(run.data(), digest.data(), run.size());
    out.push_back(run);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

absl::StatusOr<std::vector<int32_t>> ReadTokens(const std::string& root, const JsonFields& record) {
  ASSAY_ASSIGN_OR_RETURN(const std::string path, record.String("token_file"));
  const auto file = FindInDataset(root, path);
  if (!file) {
    return InvalidError("PATH_UNSAFE", record.where() + ": token_file \"" + path.substr(0, 200) +
                                           "\" is no regular file inside the dataset");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(*file, kDocumentBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const std::string stated, record.Sha256("token_ids_json_sha256"));
  if (Sha256Hex(bytes) != stated) {
    return DataLossError("DIGEST_MISMATCH", path +
                                                ": not the ids of token_ids_json_sha256; fetch "
                                                "it again");
  }
  ASSAY_ASSIGN_OR_RETURN(const Json ids, ParseJson(bytes, path));
  std::vector<int32_t> out;
  for (const Json& id : ids) {
    if (!id.is_number_integer() || id < 0 || id > kTokenMax) {
      return InvalidError("FIELD_INVALID", path + ": it must hold token ids");
    }
    out.push_back(id.get<int32_t>());
  }
  return out;
}

}  // namespace

bool ExcludedFromCleanScope(const OverlapRow& row) {
  return !row.scannable || row.same_document || row.fraction > kOverlapThreshold;
}

CalibrationOverlap FindCalibrationOverlap(const std::vector<PanelWindow>& windows) {
  CalibrationOverlap out;
  std::vector<Run> calibration;
  std::set<std::string> documents;
  for (const PanelWindow& window : windows) {
    if (window.role == kFinal) continue;
    ++out.calibration_windows;
    const std::vector<Run> runs = DistinctRuns(window.tokens);
    calibration.insert(calibration.end(), runs.begin(), runs.end());
    if (!window.document_id.empty()) documents.insert(window.document_id);
  }
  std::sort(calibration.begin(), calibration.end());
  calibration.erase(std::unique(calibration.begin(), calibration.end()), calibration.end());
  out.calibration_runs = static_cast<int64_t>(calibration.size());
  for (const PanelWindow& window : windows) {
    if (window.role != kFinal) continue;
    OverlapRow row;
    row.window_id = window.window_id;
    row.same_document = documents.count(window.document_id) > 0;
    const std::vector<Run> runs = DistinctRuns(window.tokens);
    row.scannable = !runs.empty();
    const auto shared = std::count_if(runs.begin(), runs.end(), [&](const Run& run) {
      return std::binary_search(calibration.begin(), calibration.end(), run);
    });
    if (row.scannable)
      row.fraction = static_cast<double>(shared) / static_cast<double>(runs.size());
    row.excluded = ExcludedFromCleanScope(row);
    out.rows.push_back(std::move(row));
  }
  return out;
}

absl::StatusOr<std::vector<PanelWindow>> ReadPanelWindows(const std::string& root) {
  const std::string path = JoinPath(root, "panel/panel.json");
  ASSAY_ASSIGN_OR_RETURN(const Json panel, ReadJsonFile(path, kDocumentBytesMax));
  const JsonFields fields(panel, path);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const Json* records, fields.Array("records"));
  std::vector<PanelWindow> out;
  for (size_t i = 0; i < records->size(); ++i) {
    const JsonFields record((*records)[i], path + ": records[" + std::to_string(i) + "]");
    ASSAY_RETURN_IF_ERROR(record.CheckObject());
    PanelWindow window;
    ASSAY_ASSIGN_OR_RETURN(window.window_id, record.String("window_id"));
    if (record.Has("role")) {
      ASSAY_ASSIGN_OR_RETURN(window.role, record.String("role"));
    }
    if (record.Has("document_id")) {
      ASSAY_ASSIGN_OR_RETURN(window.document_id, record.String("document_id"));
    }
    ASSAY_ASSIGN_OR_RETURN(window.tokens, ReadTokens(root, record));
    out.push_back(std::move(window));
  }
  return out;
}

}  // namespace assay
