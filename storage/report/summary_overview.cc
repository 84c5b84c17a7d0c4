// Many candidates: one to a row.

#include <algorithm>
#include <functional>
#include <limits>

#include "storage/report/summary_cells.h"
#include "storage/report/summary_text.h"

namespace assay {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kLabelMin = 12;  // room that columns leave for labels

struct Column {
  const char* heading;
  int importance;  // the least important goes first where the terminal is narrow
  std::function<std::string(const Json& candidate, const Json& head)> cell;
};

const std::vector<Column>& Columns() {
  static const auto* columns = new std::vector<Column>{
      {"Mean KLD\n(nats)", 9,
       [](const Json&, const Json& h) { return MeanCell(h.at("mean_kl_ref_cand"), "%.4g"); }},
      {"99.9% KLD\n(nats)", 7,
       [](const Json&, const Json& h) { return NumberCell(h.at("p999_kl_ref_cand"), "%.4g"); }},
      {"Same top\n(%)", 8,
       [](const Json&, const Json& h) { return FractionCell(h.at("same_top1")); }},
      {"RMS\ndelta p\n(%)", 5,
       [](const Json&, const Json& h) { return PercentCell(h.at("rms_delta_p")); }},
      {"ln(PPL(Q)/\nPPL(base))\n(nats)", 4,
       [](const Json&, const Json& h) {
         return NumberCell(h.at("ln_perplexity_ratio").at("mean"), "%.4g");
       }},
      {"Acceptance\nrate\n(%)", 2,
       [](const Json&, const Json& h) {
         return PercentCell(h.at("mean_accept_rate").at("value"));
       }},
      {"File\nsize", 6,
       [](const Json& c, const Json&) {
         const Json& sizes = c.at("sizes");
         return sizes.at("what_if").get<bool>() ? "what-if" : BytesCell(sizes.at("file_bytes"));
       }},
      {"Body\n(bits per\nweight)", 3,
       [](const Json& c, const Json&) {
         return NumberCell(c.at("sizes").at("body").at("bits_per_weight"), "%.4g");
       }},
  };
  return *columns;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  lines.push_back(text.substr(begin));
  return lines;
}

std::vector<size_t> Widths(const SummaryGrid& grid) {
  std::vector<size_t> widths;
  for (const std::string& heading : grid.headings) {
    size_t width = 0;
    for (const std::string& line : Lines(heading)) width = std::max(width, line.size());
    widths.push_back(width);
  }
  for (const auto& row : grid.rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

// Without the labels.
size_t FiguresWidth(const std::vector<size_t>& widths) {
  size_t total = 0;
  for (size_t i = 1; i < widths.size(); ++i) total += kGap + widths[i];
  return total;
}

SummaryGrid Overview(const std::vector<const Json*>& candidates, const std::string& head,
                     int least_importance) {
  SummaryGrid grid;
  grid.headings.emplace_back("Candidate");
  for (const Column& column : Columns()) {
    if (column.importance >= least_importance) grid.headings.emplace_back(column.heading);
  }
  for (const Json* candidate : candidates) {
    const Json& h = candidate->at("heads").at(head);
    std::vector<std::string> row = {candidate->at("label").get<std::string>()};
    for (const Column& column : Columns()) {
      if (column.importance >= least_importance) row.push_back(column.cell(*candidate, h));
    }
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

// Those with the head, the smallest mean first, infinite means last; equal ones as given.
std::vector<const Json*> ByMean(const std::vector<const Json*>& candidates,
                                const std::string& head) {
  std::vector<const Json*> sorted;
  for (const Json* candidate : candidates) {
    if (candidate->at("heads").contains(head)) sorted.push_back(candidate);
  }
  const auto mean = [&](const Json* candidate) {
    const Json& value = candidate->at("heads").at(head).at("mean_kl_ref_cand").at("value");
    return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Json* a, const Json* b) { return mean(a) < mean(b); });
  return sorted;
}

void AppendCells(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                 std::string* out) {
  std::string line = cells[0] + std::string(widths[0] - cells[0].size(), ' ');
  for (size_t i = 1; i < cells.size(); ++i) {
    line += std::string(kGap + widths[i] - cells[i].size(), ' ') + cells[i];  // right-aligned
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  *out += line + "\n";
}

}  // namespace

std::vector<const Json*> ScoredCandidates(const Json& summary) {
  std::vector<const Json*> out;
  for (const Json& candidate : summary.at("candidates")) {
    if (candidate.at("failed").is_null()) out.push_back(&candidate);
  }
  return out;
}

SummaryGrid OverviewGrid(const std::vector<const Json*>& candidates, const std::string& head,
                         size_t columns) {
  const std::vector<const Json*> sorted = ByMean(candidates, head);
  int most = 0;
  for (const Column& column : Columns()) most = std::max(most, column.importance);
  for (int least = 0;; ++least) {
    SummaryGrid grid = Overview(sorted, head, least);
    const bool fits = FiguresWidth(Widths(grid)) + kLabelMin <= columns;
    if (columns == 0 || fits || least == most) return grid;
  }
}

SummaryVersusGrid VersusGrid(const std::vector<const Json*>& candidates, const std::string& head) {
  SummaryVersusGrid grid;
  for (const Json* candidate : ByMean(candidates, head)) {
    const Json& versus = candidate->at("heads").at(head).at("versus");
    if (versus.is_null()) continue;
    grid.baseline = versus.at("label").get<std::string>();
    std::vector<std::string> row = {candidate->at("label").get<std::string>()};
    if (versus.at("comparison").is_null()) {
      row.insert(row.end(), {"-", "not comparable", "-"});
    } else {
      const Json& c = versus.at("comparison");
      row.insert(row.end(),
                 {NumberCell(c.at("difference_a_minus_b"), "%+.4g"),
                  IntervalCell(c.at("bootstrap_difference"), "%+.4g"), DistinguishableCell(c)});
    }
    grid.rows.push_back(std::move(row));
  }
  grid.headings = {"Candidate", "Difference\n(nats)", "95 % interval\n(nats)",
                   "Distin-\nguishable"};
  return grid;
}

std::string GridText(const SummaryGrid& grid, size_t columns) {
  std::vector<size_t> widths = Widths(grid);
  const size_t figures = FiguresWidth(widths);
  const size_t room = columns > figures + kLabelMin ? columns - figures : kLabelMin;
  widths[0] = std::min(widths[0], room);
  std::string out;
  size_t tallest = 0;
  std::vector<std::vector<std::string>> headings;
  for (const std::string& heading : grid.headings) {
    headings.push_back(Lines(heading));
    for (const std::string& line : headings.back()) {
      if (headings.size() == 1) widths[0] = std::max(widths[0], std::min(line.size(), room));
    }
    tallest = std::max(tallest, headings.back().size());
  }
  for (size_t line = 0; line < tallest; ++line) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < headings.size(); ++i) {
      const size_t above = tallest - headings[i].size();
      cells.push_back(line < above ? "" : headings[i][line - above]);
    }
    if (cells[0].size() > widths[0]) out += cells[0] + "\n", cells[0].clear();
    AppendCells(cells, widths, &out);
  }
  out += std::string(widths[0] + figures, '-') + "\n";
  for (std::vector<std::string> row : grid.rows) {
    if (row[0].size() > widths[0]) out += row[0] + "\n", row[0].clear();
    AppendCells(row, widths, &out);
  }
  return out;
}

std::string GridMarkdown(const SummaryGrid& grid) {
  std::string out = "|", rule = "|";
  for (size_t i = 0; i < grid.headings.size(); ++i) {
    std::string heading = grid.headings[i];
    for (size_t at; (at = heading.find('\n')) != std::string::npos;) {
      const bool hyphen = at > 0 && heading[at - 1] == '-';
      heading.replace(hyphen ? at - 1 : at, hyphen ? 2 : 1, hyphen ? "" : " ");
    }
    out.append(" ").append(heading).append(" |");
    rule += i == 0 ? "---|" : "---:|";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : grid.rows) {
    out += "|";
    for (const std::string& cell : row) out.append(" ").append(cell).append(" |");
    out += "\n";
  }
  return out;
}

}  // namespace assay
