// The fifty worst positions of a head, as a table.

#include <cmath>

#include "client/html/candidate_page.h"
#include "client/html/escape.h"
#include "client/html/numbers.h"
#include "client/html/page.h"
#include "storage/base/macros.h"

namespace assay {
namespace {

constexpr size_t kTokensBefore = 12;

std::string TokenHtml(const TokenText* tokens, int64_t id) {
  const std::string number = "<span class=\"id\">" + std::to_string(id) + "</span>";
  if (tokens == nullptr) return number;
  const auto text = tokens->Text(id);
  return text ? "<bdi class=\"tok\">" + HtmlToken(*text) + "</bdi> " + number : number;
}

// The tokens that end at `position`, joined: characters may lie across two of them.
std::string BeforeHtml(const TokenText& tokens, const std::vector<int32_t>& ids,
                       uint64_t position) {
  std::string bytes;
  const uint64_t end = std::min<uint64_t>(position + 1, ids.size());
  const uint64_t begin = end > kTokensBefore ? end - kTokensBefore : 0;
  for (uint64_t i = begin; i < end; ++i) bytes += tokens.Text(ids[i]).value_or("?");
  // A cut character's last bytes belong to nothing here.
  while (begin > 0 && !bytes.empty() && (static_cast<uint8_t>(bytes[0]) & 0xc0) == 0x80)
    bytes.erase(0, 1);
  return "<div class=\"wide\"><bdi class=\"tok\">" + std::string(begin > 0 ? "…" : "") +
         HtmlToken(bytes) + "</bdi></div>";
}

Cell Probability(double nll) { return Num(Json(std::isinf(nll) ? 0.0 : std::exp(-nll)), "%.4g"); }

}  // namespace

absl::StatusOr<std::string> WorstPositionsHtml(const CandidateView& view, const std::string& head) {
  const Json& contexts = view.report->at("heads").at(head).at("contexts");
  const std::vector<WorstPosition>& worst = view.scans.at(head).worst;
  const bool observed = view.suite != nullptr, text = observed && view.tokens != nullptr;
  std::vector<Column> columns = {{"Context", true}, {"Position", true}, {"KLD (nats)", true}};
  if (text) columns.push_back({"Text before"});
  if (observed) columns.push_back({"Token that follows"});
  columns.insert(columns.end(), {{"p, reference", true},
                                 {"p, candidate", true},
                                 {"Top 1, reference"},
                                 {"Top 1, candidate"},
                                 {"Stratum"}});
  std::map<int64_t, std::vector<int32_t>> ids;
  std::vector<std::vector<Cell>> rows;
  for (const WorstPosition& w : worst) {
    const Json& context = contexts[w.context];
    const int64_t index = context.at("index").get<int64_t>();
    std::vector<Cell> row = {{std::to_string(index), std::to_string(index)},
                             {std::to_string(w.position), std::to_string(w.position)},
                             std::isinf(w.kl) ? Cell{"infinite", ""} : Num(Json(w.kl))};
    if (observed) {
      if (ids.find(index) == ids.end()) {
        ASSAY_ASSIGN_OR_RETURN(ids[index], view.suite->Context(index));
      }
      const std::vector<int32_t>& tokens = ids[index];
      if (text) row.push_back({BeforeHtml(*view.tokens, tokens, w.position), ""});
      const uint64_t next = w.position + 1;
      row.push_back({next < tokens.size() ? TokenHtml(view.tokens, tokens[next]) : "-", ""});
    }
    row.insert(row.end(), {Probability(w.nll_ref),
                           Probability(w.nll_cand),
                           {TokenHtml(view.tokens, w.top1_ref), ""},
                           {TokenHtml(view.tokens, w.top1_cand), ""},
                           Txt(context.at("stratum").get<std::string>())});
    rows.push_back(std::move(row));
  }
  const std::string missing = text       ? ""
                              : observed ? " Texts need the reference's vocabulary: assay report "
                                           "html OUT --suite SUITE --tokens MODEL."
                                         : " The token that follows is shown with: assay report "
                                           "html OUT --suite SUITE --tokens MODEL.";
  return "<h3>The " + std::to_string(rows.size()) +
         " worst positions</h3><p class=\"note\">Largest KLD first. p is the probability of the "
         "token that really follows; Top 1 is "
         "each model's own first choice. Positions count from 0 in their context." +
         missing + "</p>\n" + TableHtml("Worst positions", columns, rows, true);
}

}  // namespace assay
