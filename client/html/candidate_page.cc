#include "client/html/candidate_page.h"

#include "client/html/escape.h"
#include "client/html/numbers.h"
#include "client/html/page.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/report/summary_text.h"

namespace assay {
namespace {

std::string Tile(std::string_view name, const std::string& value, const std::string& below) {
  return "<div class=\"tile\"><dt>" + HtmlText(name) + "</dt><dd><b>" + HtmlText(value) +
         "</b><span>" + HtmlText(below) + "</span></dd></div>\n";
}

std::string NoiseText(const Json& noise) {
  const Json& identical = Field(noise, {"byte_identical"});
  return identical.is_string() ? NumberCell(Field(noise, {"mean_kl_ref_cand"})) : "not measured";
}

std::string NoiseNote(const Json& noise) {
  const Json& identical = Field(noise, {"byte_identical"});
  return identical.is_string() ? identical.get<std::string>() + " repeat captures equal"
                               : "no capture was repeated";
}

// Of an entry of summary.json and a head of it.
std::string TilesHtml(const Json& entry, const Json& head) {
  const Json& ratio = head.at("ln_perplexity_ratio");
  const Json& same = head.at("same_top1");
  std::string out = "<dl class=\"tiles\">\n";
  out += Tile("Mean KLD (nats)", MeanCell(head.at("mean_kl_ref_cand")),
              "95 % " + IntervalCell(head.at("context_bootstrap")));
  out += Tile("99.9% KLD (nats)", NumberCell(head.at("p999_kl_ref_cand")),
              "largest " + NumberCell(head.at("max_kl_ref_cand")));
  out += Tile("Same top (%)", FractionCell(same),
              ShownCount(same.at("hits").get<uint64_t>()) + " of " +
                  ShownCount(same.at("positions").get<uint64_t>()) + " positions");
  out +=
      Tile("PPL(Q)/PPL(base)", NumberCell(ratio.at("ratio")),
           NumberCell(head.at("perplexity_cand")) + " / " + NumberCell(head.at("perplexity_ref")));
  out += Tile("RMS delta p (%)", PercentCell(head.at("rms_delta_p"), "%.3f"),
              "of the token that follows");
  out += Tile("Noise floor (nats)", NoiseText(entry.at("noise_floor")),
              NoiseNote(entry.at("noise_floor")));
  return out + "</dl>\n";
}

std::string AllFiguresHtml(const CandidateView& view, const std::string& head) {
  std::vector<std::vector<Cell>> rows;
  for (const SummaryRow& row : SummaryRows({view.entry}, head)) {
    rows.push_back({Txt(row.name), Txt(row.cells.at(0))});
  }
  return "<details><summary>All numbers of the table that assay prints</summary>" +
         TableHtml("All numbers, " + HeadTitle(head), {{"Quantity"}, {"Value", true}}, rows) +
         "</details>\n";
}

std::string ThresholdsTable(const Json& kl) {
  std::vector<std::vector<Cell>> rows;
  for (const Json& row : kl.at("exceedance")) {
    rows.push_back({Num(row.at("threshold")), Count(row.at("positions")), FractionOf(row)});
  }
  return TableHtml("Positions above a threshold",
                   {{"KLD above (nats)", true}, {"Positions", true}, {"Share (%)", true}}, rows);
}

std::string BucketEdge(const Json& tail, size_t edge) {
  const double exponent = tail.at("log10_low").get<double>() +
                          static_cast<double>(edge) / tail.at("bins_per_decade").get<double>();
  return "10^" + NumberCell(Json(exponent), "%.3f");
}

// Of the 562 buckets those that hold positions.
std::string BucketsTable(const Json& tail) {
  std::vector<std::vector<Cell>> rows;
  const Json& counts = tail.at("counts");
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    rows.push_back({{std::to_string(i), std::to_string(i)},
                    {i == 0 ? "0" : BucketEdge(tail, i - 1), ""},
                    {i + 1 == counts.size() ? "infinite" : BucketEdge(tail, i), ""},
                    Count(counts[i])});
  }
  return TableHtml(
      "Published tail buckets that hold positions",
      {{"Bucket", true}, {"From (nats)", true}, {"Below (nats)", true}, {"Positions", true}}, rows);
}

std::string DistributionHtml(const Json& entry, const std::string& head, Json* data) {
  const Json& kl = entry.at("statistics").at("kl_ref_cand");
  const Json& tail = kl.at("tail");
  Json counts = Json::array();
  for (size_t i = 0; i < tail.at("counts").size(); ++i) {
    if (tail.at("counts")[i] != 0) counts.push_back({i, tail.at("counts")[i]});
  }
  Json marks;
  for (const char* key : {"p50", "p99", "p999", "max"}) marks[key] = kl.at(key);
  marks["mean"] = kl.at("mean").at("value");
  (*data)["distribution"] = {
      {"counts", std::move(counts)},       {"edges", tail.at("counts").size() - 1},
      {"exceedance", kl.at("exceedance")}, {"log10_low", tail.at("log10_low")},
      {"marks", std::move(marks)},         {"per_decade", tail.at("bins_per_decade")},
      {"total", tail.at("total_count")}};
  return FigureHtml(
      {"distribution", head, "KLD of every position",
       "Above: share of positions by KLD, logarithmic, four published buckets in one bar. Below: "
       "share of "
       "positions whose KLD is larger than a value; the dots are the published thresholds.",
       ThresholdsTable(kl) + BucketsTable(tail)});
}

std::string ContextsHtml(const Json& entry, const std::string& head, Json* data) {
  Json strata = Json::array(), contexts = Json::array();
  std::map<std::string, size_t> known;
  for (const auto& [name, group] : entry.at("strata").items()) {
    known[name] = strata.size();
    strata.push_back(name);
  }
  std::vector<std::vector<Cell>> rows;
  for (const Json& context : entry.at("contexts")) {
    const std::string stratum = context.at("stratum").get<std::string>();
    const Json& mean = context.at("mean_kl_ref_cand");
    contexts.push_back({context.at("index"), known[stratum], mean.at("value"),
                        context.at("max_kl_ref_cand"), Field(context, {"same_top1", "hits"}),
                        context.at("positions")});
    rows.push_back({{context.at("index").dump(), context.at("index").dump()},
                    Txt(stratum),
                    Txt(context.at("source_cluster").get<std::string>()),
                    MeanOf(mean),
                    Num(context.at("median_kl_ref_cand")),
                    Num(context.at("max_kl_ref_cand")),
                    FractionOf(context.at("same_top1")),
                    Count(context.at("positions"))});
  }
  (*data)["strata_names"] = std::move(strata);
  (*data)["contexts"] = std::move(contexts);
  (*data)["worst_contexts"] = entry.at("worst_contexts");
  return FigureHtml({"contexts", head, "Mean KLD of each context",
                     "In the order of the suite, logarithmic. Point at a bar, or move with the "
                     "arrow keys; W goes through the worst contexts, "
                     "worst first.",
                     TableHtml("Contexts",
                               {{"Context", true},
                                {"Stratum"},
                                {"Document"},
                                {"Mean KLD (nats)", true},
                                {"Median KLD", true},
                                {"Max KLD", true},
                                {"Same top (%)", true},
                                {"Positions", true}},
                               rows, true)});
}

std::string CurveHtml(const HeadScan& scan, const std::string& head, Json* data) {
  Json curve = Json::array();
  std::vector<std::vector<Cell>> rows;
  for (const CurveBin& bin : scan.curve) {
    const Json mean = bin.mean ? Json(*bin.mean) : Json();
    const Json max = bin.max <= 1e300 ? Json(bin.max) : Json();
    const double same = static_cast<double>(bin.same_top1) / static_cast<double>(bin.positions);
    curve.push_back({bin.first, bin.last, bin.positions, mean, max, bin.same_top1});
    const std::string range = bin.first == bin.last
                                  ? std::to_string(bin.first)
                                  : std::to_string(bin.first) + " to " + std::to_string(bin.last);
    rows.push_back(
        {{range, std::to_string(bin.first)},
         Count(bin.positions),
         mean.is_null() ? Cell{"infinite at " + std::to_string(bin.infinite), ""} : Num(mean),
         max.is_null() ? Cell{"infinite", ""} : Num(max),
         {PercentCell(Json(same)), ""}});
  }
  (*data)["curve"] = std::move(curve);
  return FigureHtml(
      {"curve", head, "KLD by position in the context",
       "Mean over all contexts; positions far from the start are taken together in wider and wider "
       "ranges. The "
       "thin line is the largest KLD of the range. A curve that rises says that errors build up.",
       TableHtml("KLD by position",
                 {{"Position", true},
                  {"Positions", true},
                  {"Mean KLD (nats)", true},
                  {"Max KLD", true},
                  {"Same top (%)", true}},
                 rows)});
}

}  // namespace

absl::StatusOr<std::string> HeadSectionHtml(const CandidateView& view, const std::string& head,
                                            Json* data) {
  const Json& entry = view.report->at("heads").at(head);
  const HeadScan& scan = view.scans.at(head);
  std::string out =
      "<section id=\"" + HtmlText(head) + "\"><h2>" + HtmlText(HeadTitle(head)) + "</h2>\n";
  out += TilesHtml(*view.entry, view.entry->at("heads").at(head));
  out += AllFiguresHtml(view, head);
  out += DistributionHtml(entry, head, data);
  out += StrataFigureHtml(entry, head, data);
  out += ContextsHtml(entry, head, data);
  out += CurveHtml(scan, head, data);
  ASSAY_ASSIGN_OR_RETURN(const std::string worst, WorstPositionsHtml(view, head));
  return out + worst + "</section>\n";
}

absl::StatusOr<std::string> CandidatePage(const CandidateView& view) {
  try {
    const std::string label = view.entry->at("label").get<std::string>();
    const Json& coverage = view.report->at("coverage");
    Json data = {{"heads", Json::object()}, {"label", label}};
    std::string sections,
        nav = "<nav aria-label=\"Parts of this page\"><a href=\"../index.html\">All candidates</a>";
    for (const auto& [head, scan] : view.scans) {
      ASSAY_ASSIGN_OR_RETURN(const std::string section,
                             HeadSectionHtml(view, head, &data["heads"][head]));
      sections += section;
      nav += " <a href=\"#" + HtmlText(head) + "\">" + (head == "own" ? "As served" : "Body only") +
             "</a>";
    }
    nav +=
        " <a href=\"#provenance\">Where it comes from</a> <a href=\"#verify\">How to "
        "verify</a></nav>\n";
    const bool sealed = view.entry->at("sealed") == Json(true);
    std::string body =
        "<header>" + nav + "<h1><bdi>" + HtmlText(label) + "</bdi></h1><p class=\"lead\">" +
        ShownCount(coverage.at("positions").get<uint64_t>()) + " positions in " +
        ShownCount(coverage.at("contexts").get<uint64_t>()) + " contexts, policy " +
        HtmlText(view.entry->at("policy").get<std::string>()) + ", " +
        HtmlText(view.entry->at("backend").get<std::string>()) + " · <strong class=\"" +
        (sealed ? "good\">sealed" : "bad\">UNSEALED") + "</strong></p></header>\n<main>\n";
    body += DisclosuresHtml(view.report->at("disclosures")) + sections + ProvenanceHtml(view) +
            VerifyHtml(view) + "</main>\n";
    return AssemblePage(PageKind::kCandidate, label + " - Assay", body, data);
  } catch (const nlohmann::json::exception& error) {
    return InvalidError(
        "REPORT_INVALID",
        std::string("the page needs a field that the report lacks: ") + error.what());
  }
}

}  // namespace assay
