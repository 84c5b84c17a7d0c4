#include "client/html/write_pages.h"

#include <map>
#include <optional>

#include "client/html/candidate_page.h"
#include "client/html/index_page.h"
#include "client/html/numbers.h"
#include "client/html/report_set.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"

namespace assay {
namespace {

absl::Status WritePage(const std::string& path, const std::string& html, PagesWritten* written) {
  if (html.size() > kPageBytesMax) {
    return ExhaustedError(
        "PAGE_TOO_LARGE",
        path + ": would have " + std::to_string(html.size()) + " bytes, more than " +
            std::to_string(kPageBytesMax) +
            "; the result has more contexts than one page can list, use its report.json");
  }
  written->largest = std::max<uint64_t>(written->largest, html.size());
  return WriteFile(path, html);
}

absl::Status CheckSuite(const SuiteTokens& suite, const Json& entry, const std::string& dir) {
  const Json& scored = Field(entry, {"suite_token_sha256"});
  if (scored == Json(suite.suite_token_sha256())) return absl::OkStatus();
  return InvalidError("SUITE_MISMATCH",
                      dir + ": is not the suite that was scored (suite_token_sha256 " +
                          suite.suite_token_sha256() + ", the result has " +
                          (scored.is_string() ? scored.get<std::string>() : "none") +
                          "); give --suite that one, or leave it out");
}

class PageWriter {
 public:
  explicit PageWriter(const PagesRequest& request)
      : request_(request), dir_(request.dir.empty() ? request.out : request.dir) {}

  absl::StatusOr<PagesWritten> Run() {
    ASSAY_ASSIGN_OR_RETURN(const Json summary, ReadSummary(request_.out));
    if (!request_.suite.empty()) {
      ASSAY_ASSIGN_OR_RETURN(suite_, SuiteTokens::Open(request_.suite));
    }
    if (!request_.tokens.empty()) {
      ASSAY_ASSIGN_OR_RETURN(tokens_, TokenText::Open(request_.tokens));
    }
    for (const Json& entry : summary.at("candidates")) {
      if (!Field(entry, {"failed"}).is_null()) continue;
      ASSAY_RETURN_IF_ERROR(Candidate(entry));
    }
    ASSAY_ASSIGN_OR_RETURN(const std::string html, IndexPage(summary, weights_));
    written_.index = JoinPath(dir_, kIndexPageFile);
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(dir_));
    ASSAY_RETURN_IF_ERROR(WritePage(written_.index, html, &written_));
    return std::move(written_);
  }

 private:
  absl::Status Candidate(const Json& entry) {
    ASSAY_ASSIGN_OR_RETURN(const Json report, ReadCandidateReport(request_.out, entry));
    if (suite_) ASSAY_RETURN_IF_ERROR(CheckSuite(*suite_, entry, request_.suite));
    const std::string label = entry.at("label").get<std::string>();
    const std::string positions = JoinPath(JoinPath(request_.out, label), kPositionsFolder);
    const Json& from = Field(report, {"coverage", "score_from"});
    CandidateView view;
    view.entry = &entry;
    view.report = &report;
    view.suite = suite_ ? &*suite_ : nullptr;
    view.tokens = tokens_ ? &*tokens_ : nullptr;
    for (const auto& [head, figures] : report.at("heads").items()) {
      ASSAY_ASSIGN_OR_RETURN(
          view.scans[head],
          ScanHead(JoinPath(positions, head), figures.at("contexts"), figures.at("arrays"),
                   from.is_number_integer() ? from.get<uint64_t>() : 0));
    }
    ASSAY_ASSIGN_OR_RETURN(const std::string html, CandidatePage(view));
    weights_[label] = CandidateWeightBytes(report);
    const std::string folder = JoinPath(dir_, label);
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(folder));
    written_.pages.push_back(JoinPath(folder, kCandidatePageFile));
    return WritePage(written_.pages.back(), html, &written_);
  }

  const PagesRequest& request_;
  std::string dir_;
  std::optional<SuiteTokens> suite_;
  std::optional<TokenText> tokens_;
  std::map<std::string, Json> weights_;  // by label
  PagesWritten written_;
};

}  // namespace

bool TokensReadable(const std::string& path) { return TokenText::Open(path).ok(); }

absl::StatusOr<PagesWritten> WritePages(const PagesRequest& request) {
  try {
    return PageWriter(request).Run();
  } catch (const nlohmann::json::exception& error) {
    return InvalidError("REPORT_INVALID",
                        request.out + ": a field that the pages need is missing: " + error.what());
  }
}

}  // namespace assay
