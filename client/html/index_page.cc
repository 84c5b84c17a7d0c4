#include "client/html/index_page.h"

#include <set>

#include "client/html/candidate_page.h"
#include "client/html/escape.h"
#include "client/html/numbers.h"
#include "client/html/page.h"
#include "client/html/report_set.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/summary_text.h"

namespace assay {
namespace {

std::vector<const Json*> ScoredUnder(const Json& summary, const std::string& head) {
  std::vector<const Json*> out;
  for (const Json& candidate : summary.at("candidates")) {
    if (candidate.at("failed").is_null() && candidate.at("heads").contains(head))
      out.push_back(&candidate);
  }
  return out;
}

Cell LinkTo(const std::string& label) {
  return {"<a href=\"" + HtmlText(label) + "/report.html\"><bdi>" + HtmlText(label) + "</bdi></a>",
          ""};
}

// Difference to the baseline: the best, or the one that --versus named.
Cell VersusCell(const Json& h) {
  const Json& versus = h.at("versus");
  if (versus.is_null()) return {"baseline", ""};
  const Json& c = versus.at("comparison");
  if (c.is_null()) return {"not comparable", ""};
  return {HtmlText(NumberCell(c.at("difference_a_minus_b"))) + "<br><span class=\"dim\">" +
              (c.at("distinguishable").is_null() ? "no interval"
                                                 : "distinguishable: " + DistinguishableCell(c)) +
              "</span>",
          Num(c.at("difference_a_minus_b")).sort};
}

std::string CandidatesTable(const std::vector<const Json*>& scored, const std::string& head,
                            const std::map<std::string, Json>& weights) {
  std::vector<std::vector<Cell>> rows;
  for (const Json* candidate : scored) {
    const std::string label = candidate->at("label").get<std::string>();
    const Json& h = candidate->at("heads").at(head);
    const bool what_if = Field(*candidate, {"sizes", "what_if"}) == Json(true);
    Cell mean = MeanOf(h.at("mean_kl_ref_cand")), size = BytesOf(weights.at(label));
    mean.html +=
        "<br><span class=\"dim\">" + HtmlText(IntervalCell(h.at("context_bootstrap"))) + "</span>";
    if (what_if && !size.sort.empty()) size.html += "<br><span class=\"dim\">what-if</span>";
    rows.push_back(
        {LinkTo(label),
         mean,
         Num(h.at("p999_kl_ref_cand")),
         FractionOf(h.at("same_top1")),
         Num(h.at("ln_perplexity_ratio").at("ratio")),
         {PercentCell(h.at("rms_delta_p"), "%.3f"), Num(h.at("rms_delta_p")).sort},
         size,
         Num(Field(*candidate, {"sizes", "body", "bits_per_weight"}), "%.4g"),
         VersusCell(h),
         {candidate->at("sealed") == Json(true) ? "sealed"
                                                : "<strong class=\"bad\">UNSEALED</strong>",
          ""}});
  }
  return TableHtml("Candidates",
                   {{"Candidate"},
                    {"Mean KLD, 95 % interval (nats)", true},
                    {"99.9% KLD (nats)", true},
                    {"Same top (%)", true},
                    {"PPL(Q)/PPL(base)", true},
                    {"RMS delta p (%)", true},
                    {"Weights", true},
                    {"Bits per weight, body", true},
                    {"Minus the best (nats)", true},
                    {"Receipt"}},
                   rows, true);
}

std::string AllNumbersTable(const std::vector<const Json*>& scored, const std::string& head) {
  std::vector<Column> columns = {{"Quantity"}};
  for (const Json* candidate : scored)
    columns.push_back({candidate->at("label").get<std::string>(), true});
  std::vector<std::vector<Cell>> rows;
  for (const SummaryRow& row : SummaryRows(scored, head)) {
    rows.push_back({Txt(row.name)});
    for (const std::string& cell : row.cells) rows.back().push_back(Txt(cell));
  }
  return "<details><summary>All numbers of the table that assay prints</summary>" +
         TableHtml("All numbers, " + HeadTitle(head), columns, rows) + "</details>\n";
}

std::string SizeFigure(const std::vector<const Json*>& scored, const std::string& head,
                       const std::map<std::string, Json>& weights, Json* data) {
  Json points = Json::array();
  std::vector<std::vector<Cell>> rows;
  for (const Json* candidate : scored) {
    const std::string label = candidate->at("label").get<std::string>();
    const Json& h = candidate->at("heads").at(head);
    const Json &mean = h.at("mean_kl_ref_cand").at("value"), &bytes = weights.at(label);
    const bool what_if = Field(*candidate, {"sizes", "what_if"}) == Json(true);
    points.push_back({{"bytes", bytes},
                      {"high", h.at("context_bootstrap").at("ci95_high")},
                      {"label", label},
                      {"low", h.at("context_bootstrap").at("ci95_low")},
                      {"mean", mean},
                      {"what_if", what_if}});
    rows.push_back({LinkTo(label),
                    BytesOf(bytes),
                    MeanOf(h.at("mean_kl_ref_cand")),
                    Txt(IntervalCell(h.at("context_bootstrap"))),
                    {what_if ? "what-if, no such file" : "file", ""}});
  }
  (*data)["points"] = std::move(points);
  return FigureHtml({"sizes", head, "Mean KLD against size",
                     "Size: bytes of the weights, each part at its bits per weight. The line is "
                     "the Pareto front: nothing is both "
                     "smaller and closer to the reference than a candidate on it. Hollow: a "
                     "what-if, no such file exists. Bars: 95 % "
                     "interval.",
                     TableHtml("Mean KLD against size",
                               {{"Candidate"},
                                {"Weights", true},
                                {"Mean KLD (nats)", true},
                                {"95 % interval"},
                                {"Kind"}},
                               rows, true)});
}

std::string FailedHtml(const Json& summary) {
  std::vector<std::vector<Cell>> rows;
  for (const Json& candidate : summary.at("candidates")) {
    const Json& failed = candidate.at("failed");
    if (failed.is_null()) continue;
    rows.push_back({Txt(candidate.at("label").get<std::string>()),
                    {CodeHtml(failed.at("reason").get<std::string>()), ""},
                    Txt(failed.at("message").get<std::string>())});
  }
  if (rows.empty()) return "";
  return "<section><h2>Candidates that failed</h2>" +
         TableHtml("Candidates that failed", {{"Candidate"}, {"Reason"}, {"Message"}}, rows) +
         "</section>\n";
}

// What several candidates share is said once.
Json AllDisclosures(const Json& summary) {
  Json out = Json::array();
  std::set<std::string> said;
  for (const Json& candidate : summary.at("candidates")) {
    if (!candidate.at("failed").is_null()) continue;
    for (const Json& disclosure : candidate.at("disclosures")) {
      if (said.insert(disclosure.at("text").get<std::string>()).second) out.push_back(disclosure);
    }
  }
  for (Json& disclosure : out) {
    std::string labels;
    for (const Json& candidate : summary.at("candidates")) {
      if (!candidate.at("failed").is_null()) continue;
      for (const Json& other : candidate.at("disclosures")) {
        if (other.at("text") != disclosure.at("text")) continue;
        labels += (labels.empty() ? "" : ", ") + candidate.at("label").get<std::string>();
        break;
      }
    }
    disclosure["text"] = labels + ": " + disclosure.at("text").get<std::string>();
  }
  return out;
}

std::string ScopeText(const Json& summary) {
  std::set<std::string> lines;
  for (const Json& c : summary.at("candidates")) {
    if (!c.at("failed").is_null()) continue;
    lines.insert(ShownCount(c.at("positions").get<uint64_t>()) + " positions in " +
                 ShownCount(c.at("contexts").get<uint64_t>()) + " contexts, policy " +
                 HtmlText(c.at("policy").get<std::string>()) + ", " +
                 HtmlText(c.at("backend").get<std::string>()));
  }
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "<br>") + line;
  return out;
}

std::string IndexVerifyHtml() {
  return "<section id=\"verify\"><h2>How to verify</h2><p>These pages show what the files beside "
         "them hold; they are not signed "
         "themselves. In the folder that holds <code>summary.json</code>:</p>\n<pre><code>assay "
         "verify . --key key.pub</code></pre>\n"
         "<p>The pages again, from those files:</p>\n<pre><code>assay report html "
         ".</code></pre></section>\n";
}

}  // namespace

absl::StatusOr<std::string> IndexPage(const Json& summary,
                                      const std::map<std::string, Json>& weights) {
  try {
    Json data = {{"heads", Json::object()}};
    std::string sections;
    for (const std::string head : {"own", "shared"}) {
      const std::vector<const Json*> scored = ScoredUnder(summary, head);
      if (scored.empty()) continue;
      Json* figures = &data["heads"][head];
      sections += "<section id=\"" + head + "\"><h2>" + HtmlText(HeadTitle(head)) + "</h2>\n";
      sections += CandidatesTable(scored, head, weights) + AllNumbersTable(scored, head);
      sections += SizeFigure(scored, head, weights, figures);
      if (scored.size() > 1) sections += PairsHtml(summary, head, figures);
      sections += "</section>\n";
    }
    const size_t count = summary.at("candidates").size();
    const std::string body =
        "<header><h1>" + std::to_string(count) + (count == 1 ? " candidate" : " candidates") +
        " against one reference</h1><p class=\"lead\">" + ScopeText(summary) +
        "</p></header>\n<main>\n" + FailedHtml(summary) + sections +
        DisclosuresHtml(AllDisclosures(summary)) + IndexVerifyHtml() + "</main>\n";
    return AssemblePage(
        PageKind::kIndex,
        std::to_string(count) + (count == 1 ? " candidate" : " candidates") + " - Assay", body,
        data);
  } catch (const nlohmann::json::exception& error) {
    return InvalidError(
        "REPORT_INVALID",
        std::string("the page needs a field that summary.json lacks: ") + error.what());
  }
}

}  // namespace assay
