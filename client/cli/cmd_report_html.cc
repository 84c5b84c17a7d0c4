// assay report html: pages for people, from the files of a result.

#include <memory>

#include "client/cli/commands.h"
#include "client/cli/pages.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/out_folder.h"
#include "storage/base/status.h"
#include "storage/report/candidate_files.h"

namespace assay {
namespace {

absl::StatusOr<int> Html(const PagesRequest& request, CliContext& context) {
  ASSAY_RETURN_IF_ERROR(CheckCanWriteFolder(request.dir.empty() ? request.out : request.dir));
  ASSAY_ASSIGN_OR_RETURN(const PagesWritten written, WritePages(request));
  context.PrintJson(Json{{"index", written.index}, {"pages", written.pages}});
  context.Print(fmt::format("{}\nOpen it in a browser; it needs no network.", written.index));
  for (const std::string& page : written.pages) context.Print(page);
  return kExitSuccess;
}

}  // namespace

void AddNoHtmlOption(CLI::App* command, bool* no_html) {
  command->add_flag("--no-html", *no_html,
                    "Write no HTML pages into OUT (assay report html makes them later)");
}

void LeaveResultPages(PagesRequest request, bool no_html,
                      const std::vector<SummaryCandidate>& candidates, CliContext& context) {
  RemoveTree(JoinPath(request.out, kIndexPageFile)).IgnoreError();
  for (const SummaryCandidate& candidate : candidates) {
    RemoveTree(JoinPath(JoinPath(request.out, candidate.label), kCandidatePageFile)).IgnoreError();
  }
  if (no_html) return;
  if (!request.tokens.empty() && !TokensReadable(request.tokens)) request.tokens.clear();
  absl::StatusOr<PagesWritten> written = WritePages(request);
  if (!written.ok() && ReasonOf(written.status()) == "SUITE_MISMATCH") {
    request.suite.clear();
    written = WritePages(request);
  }
  if (written.ok()) {
    context.Print(fmt::format("Pages    {}", written->index));
    return;
  }
  context.Warn(
      fmt::format("the HTML pages were not written [{}]: {}. The result is complete without "
                  "them; make them with: assay report html {}",
                  ReasonOf(written.status()), MessageOf(written.status()), request.out));
}

void AddReportHtmlCommand(CLI::App& report, CliContext& context) {
  auto request = std::make_shared<PagesRequest>();
  CLI::App* html = AddCommand(
      report, context, "html",
      "Write the pages of a result: index.html over all candidates, LABEL/report.html for each.\n"
      "Each file is complete by itself and needs no network. score and replay write them too; "
      "they\n"
      "are not part of what is sealed, and can be made again at any time.",
      "  assay report html result\n"
      "  assay report html result --suite suite --tokens model.gguf --out pages\n");
  html->add_option("OUT", request->out, "Folder that assay score, replay or report fetch wrote")
      ->required();
  html->add_option("--out", request->dir, "Folder for the pages; default: the result's own");
  html->add_option("--suite", request->suite,
                   "Suite folder that was scored: shows which token follows each of the worst "
                   "positions");
  html->add_option("--tokens", request->tokens,
                   "Reference model's vocabulary: GGUF file, tokenizer.json or a folder with one; "
                   "shows texts beside token ids");
  OnRun(html, context, [request, &context] { return Html(*request, context); });
}

}  // namespace assay
