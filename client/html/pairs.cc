// Which candidates can be told apart.

#include "client/html/escape.h"
#include "client/html/index_page.h"
#include "client/html/numbers.h"
#include "client/html/page.h"

namespace assay {
namespace {

struct Pair {
  Json difference, low, high;  // a minus b, nats; null when unknown
  Json distinguishable;        // true, false, or null: no interval
  Json among_all;              // the same, with every pair of the head in mind
  std::string not_comparable;  // why, or ""
};

Json Negative(const Json& value) { return value.is_number() ? Json(-value.get<double>()) : value; }

std::map<std::pair<std::string, std::string>, Pair> ReadPairs(const Json& summary,
                                                              const std::string& head) {
  std::map<std::pair<std::string, std::string>, Pair> out;
  for (const Json& pair : summary.at("pairs")) {
    if (pair.at("head") != head) continue;
    const std::string a = pair.at("a").get<std::string>(), b = pair.at("b").get<std::string>();
    Pair p;
    if (!pair.at("not_comparable").is_null())
      p.not_comparable = pair.at("not_comparable").get<std::string>();
    const Json& c = pair.at("comparison");
    p.difference = Field(c, {"difference_a_minus_b"});
    p.low = Field(c, {"bootstrap_difference", "ci95_low"});
    p.high = Field(c, {"bootstrap_difference", "ci95_high"});
    p.distinguishable = Field(c, {"distinguishable"});
    p.among_all = Field(c, {"simultaneous", "distinguishable"});
    out[{b, a}] = {Negative(p.difference), Negative(p.high), Negative(p.low),
                   p.distinguishable,      p.among_all,      p.not_comparable};
    out[{a, b}] = std::move(p);
  }
  return out;
}

std::string Verdict(const Pair& pair) {
  if (!pair.not_comparable.empty()) return "not comparable";
  if (pair.distinguishable.is_null()) return "no interval";
  if (pair.distinguishable == Json(false)) return "not distinguishable";
  const std::string mark = pair.among_all == Json(false) ? "?" : "";
  return (pair.difference.get<double>() < 0 ? "closer" : "farther") + mark;
}

const char* VerdictClass(const std::string& verdict) {
  if (verdict.rfind("closer", 0) == 0) return "closer";
  return verdict.rfind("farther", 0) == 0 ? "farther" : "same";
}

std::string IntervalText(const Pair& pair) {
  if (!pair.low.is_number() || !pair.high.is_number()) return "";
  return "[" + NumberCell(pair.low) + ", " + NumberCell(pair.high) + "]";
}

std::string MatrixCell(const Pair& pair) {
  const std::string verdict = Verdict(pair);
  std::string out =
      std::string("<span class=\"verdict ") + VerdictClass(verdict) + "\">" + verdict + "</span>";
  if (pair.not_comparable.empty()) {
    out += "<br>" + NumberCell(pair.difference) + "<br><span class=\"dim\">" + IntervalText(pair) +
           "</span>";
  } else {
    out += "<br><span class=\"dim\">" + HtmlText(pair.not_comparable) + "</span>";
  }
  return out;
}

}  // namespace

std::string PairsHtml(const Json& summary, const std::string& head, Json* data) {
  const auto pairs = ReadPairs(summary, head);
  std::vector<std::string> labels;
  for (const Json& candidate : summary.at("candidates")) {
    if (candidate.at("failed").is_null() && candidate.at("heads").contains(head)) {
      labels.push_back(candidate.at("label").get<std::string>());
    }
  }
  std::vector<Column> columns = {{"Row minus column (nats)"}};
  for (const std::string& label : labels) columns.push_back({label});
  std::vector<std::vector<Cell>> matrix, list;
  Json rows = Json::array();
  for (size_t i = 0; i < labels.size(); ++i) {
    matrix.push_back({Txt(labels[i])});
    for (size_t j = 0; j < labels.size(); ++j) {
      const auto found = pairs.find({labels[i], labels[j]});
      matrix.back().push_back({i == j                 ? ""
                               : found == pairs.end() ? "-"
                                                      : MatrixCell(found->second),
                               ""});
      if (j <= i || found == pairs.end()) continue;
      const Pair& p = found->second;
      rows.push_back({{"a", labels[i]},
                      {"b", labels[j]},
                      {"difference", p.difference},
                      {"high", p.high},
                      {"low", p.low},
                      {"verdict", Verdict(p)}});
      list.push_back(
          {Txt(labels[i] + " minus " + labels[j]), Num(p.difference), Txt(IntervalText(p)),
           Txt(p.distinguishable.is_boolean() ? (p.distinguishable == Json(true) ? "yes" : "no")
                                              : "-"),
           Txt(p.among_all.is_boolean() ? (p.among_all == Json(true) ? "yes" : "no") : "-")});
    }
  }
  (*data)["pairs"] = std::move(rows);
  return FigureHtml({"pairs", head, "Which candidates can be told apart",
                     "Difference of mean KLD over the same contexts, paired, with its 95 % "
                     "interval. Two candidates are "
                     "distinguishable when the interval leaves zero out and the difference is "
                     "larger than both noise floors. A question "
                     "mark: not when all pairs are looked at together (of many equal pairs, one in "
                     "twenty looks different by chance).",
                     TableHtml("Pairs",
                               {{"Pair"},
                                {"Difference (nats)", true},
                                {"95 % interval"},
                                {"Distinguishable"},
                                {"Among all pairs"}},
                               list, true)}) +
         "<div class=\"matrix\">" +
         TableHtml(
             "Row minus column: closer means that the row's candidate is closer to the reference",
             columns, matrix) +
         "</div>";
}

}  // namespace assay
