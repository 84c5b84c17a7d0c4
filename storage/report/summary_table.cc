// Terminal and Markdown forms of a summary.

#include <algorithm>

#include "storage/report/summary.h"
#include "storage/report/summary_cells.h"
#include "storage/report/summary_text.h"

namespace assay {
namespace {

constexpr size_t kNameWidth = 33;
constexpr size_t kCellWidth = 31;  // an interval of two six-digit numbers fits
constexpr size_t kNotesMin = 40;   // columns that sentences get even where there are fewer

std::string Pad(const std::string& text, size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

// Breaks at blanks so that lines stay within the width; continuation lines are indented.
void AppendWrapped(const std::string& line, size_t columns, std::string* out) {
  std::string rest = line;
  std::string indent;
  while (indent.size() + rest.size() > columns) {
    size_t cut = rest.rfind(' ', columns - indent.size());
    if (cut == std::string::npos || cut == 0) break;
    *out += indent + rest.substr(0, cut) + "\n";
    rest = rest.substr(cut + 1);
    indent = "    ";
  }
  *out += indent + rest + "\n";
}

std::string HeadTitle(const std::string& head) {
  return head == "own" ? "As served (each model through its own head)"
                       : "Body only (both through the reference head)";
}

std::vector<std::string> HeadsOf(const Json& summary) {
  std::vector<std::string> heads;
  for (const char* head : {"own", "shared"}) {
    for (const Json& candidate : summary.at("candidates")) {
      if (!candidate.at("failed").is_null() || !candidate.at("heads").contains(head)) continue;
      heads.emplace_back(head);
      break;
    }
  }
  return heads;
}

// "Reference: 269.1 MB; bits per weight: body 16, head 16, embedding 16".
std::string ReferenceLine(const Json& candidate) {
  const Json& sizes = candidate.at("reference_sizes");
  std::string out = "Reference: " + BytesCell(sizes.at("file_bytes"));
  std::string bits;
  for (const char* part : {"body", "head", "embedding"}) {
    const std::string cell = NumberCell(sizes.at(part).at("bits_per_weight"), "%.4g");
    if (cell != "-") bits += (bits.empty() ? "" : ", ") + std::string(part) + " " + cell;
  }
  if (!bits.empty()) out += "; bits per weight: " + bits;
  return out == "Reference: -" ? "" : out;
}

// "504 positions in 8 contexts, policy exact, cpu-bf16" and the reference's size, once for all
// candidates that share them.
std::vector<std::string> Scope(const std::vector<const Json*>& scored) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& line) {
    const bool known = std::find(lines.begin(), lines.end(), line) != lines.end();
    if (!line.empty() && !known) lines.push_back(line);
  };
  for (const Json* c : scored) {
    add(std::to_string(c->at("positions").get<uint64_t>()) + " positions in " +
        std::to_string(c->at("contexts").get<uint64_t>()) + " contexts, policy " +
        c->at("policy").get<std::string>() + ", " + c->at("backend").get<std::string>());
  }
  for (const Json* c : scored) add(ReferenceLine(*c));
  return lines;
}

void AppendRow(const SummaryRow& row, size_t width, std::string* out) {
  std::string line = Pad(row.name, kNameWidth);
  for (const std::string& cell : row.cells) line.append("  ").append(Pad(cell, width));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  *out += line + "\n";
}

// Columns of the block's candidates: as wide as the longest label, as far as `columns` go.
size_t CellWidth(const std::vector<const Json*>& block, size_t columns) {
  size_t longest = 0;
  for (const Json* candidate : block) {
    longest = std::max(longest, candidate->at("label").get<std::string>().size());
  }
  const size_t share = columns > kNameWidth ? (columns - kNameWidth) / block.size() : 0;
  return std::max(kCellWidth, std::min(longest, share > 2 ? share - 2 : 0));
}

// Labels above their columns. One that is too long goes on below: where two models differ is often
// at the end, and labels that are cut would look alike.
void AppendHeading(const std::vector<const Json*>& block, const std::string& head, size_t width,
                   std::string* out) {
  size_t longest = 0;
  for (const Json* candidate : block) {
    longest = std::max(longest, candidate->at("label").get<std::string>().size());
  }
  for (size_t begin = 0; begin < longest; begin += width) {
    SummaryRow row;
    if (begin == 0) row.name = head == "own" ? "as served" : "body only";
    for (const Json* candidate : block) {
      const std::string label = candidate->at("label").get<std::string>();
      row.cells.push_back(label.substr(std::min(begin, label.size()), width));
    }
    AppendRow(row, width, out);
  }
}

void AppendBlock(const std::vector<const Json*>& block, const std::string& head, size_t columns,
                 std::string* out) {
  const size_t width = CellWidth(block, columns);
  AppendHeading(block, head, width, out);
  *out += std::string(kNameWidth + block.size() * (width + 2), '-') + "\n";
  for (const SummaryRow& row : SummaryRows(block, head)) AppendRow(row, width, out);
  *out += "\n";
}

std::string VersusTitle(const SummaryVersusGrid& grid) {
  return "Mean KLD minus that of " + grid.baseline + " (positive: further from the reference)";
}

// More candidates than fit side by side.
void AppendGrids(const std::vector<const Json*>& scored, const std::string& head, size_t columns,
                 std::string* out) {
  *out += HeadTitle(head) + "\n\n";
  *out += GridText(OverviewGrid(scored, head, columns), columns) + "\n";
  const SummaryVersusGrid versus = VersusGrid(scored, head);
  if (versus.rows.empty()) return;
  AppendWrapped(VersusTitle(versus), columns, out);
  *out += "\n" + GridText(versus, columns) + "\n";
}

void AppendMarkdownTable(const std::vector<const Json*>& scored, const std::string& head,
                         std::string* out) {
  *out += "| |";
  std::string rule = "|---|";
  for (const Json* candidate : scored) {
    out->append(" ").append(candidate->at("label").get<std::string>()).append(" |");
    rule += "---|";
  }
  *out += "\n" + rule + "\n";
  for (const SummaryRow& row : SummaryRows(scored, head)) {
    *out += "| " + row.name + " |";
    for (const std::string& cell : row.cells) out->append(" ").append(cell).append(" |");
    *out += "\n";
  }
  *out += "\n";
}

}  // namespace

std::string SummaryTable(const Json& summary, size_t columns) {
  const std::vector<const Json*> scored = ScoredCandidates(summary);
  std::string out;
  for (const std::string& line : Scope(scored)) AppendWrapped(line, columns, &out);
  out += "\n";
  const size_t both = kNameWidth + kCandidatesInFull * (kCellWidth + 2);
  const size_t per_block = columns >= both ? kCandidatesInFull : 1;
  for (const std::string& head : HeadsOf(summary)) {
    if (scored.size() > kCandidatesInFull) {
      AppendGrids(scored, head, columns, &out);
      continue;
    }
    for (size_t i = 0; i < scored.size(); i += per_block) {
      const size_t end = std::min(i + per_block, scored.size());
      AppendBlock({scored.begin() + static_cast<ptrdiff_t>(i),
                   scored.begin() + static_cast<ptrdiff_t>(end)},
                  head, columns, &out);
    }
  }
  for (const std::string& line : SummaryNotes(summary)) {
    AppendWrapped(line, std::max(columns, kNotesMin), &out);
  }
  return out;
}

std::string SummaryMarkdown(const Json& summary) {
  const std::vector<const Json*> scored = ScoredCandidates(summary);
  std::string out = "# Assay summary\n\n";
  for (const std::string& line : Scope(scored)) out += line + "\n";
  out += "\n";
  for (const std::string& head : HeadsOf(summary)) {
    out.append("## ").append(HeadTitle(head)).append("\n\n");
    if (scored.size() > kCandidatesInFull) {
      out += GridMarkdown(OverviewGrid(scored, head, 0)) + "\n";
      const SummaryVersusGrid versus = VersusGrid(scored, head);
      if (!versus.rows.empty()) out += VersusTitle(versus) + "\n\n" + GridMarkdown(versus) + "\n";
    }
    AppendMarkdownTable(scored, head, &out);
  }
  out += "```\n";
  for (const std::string& line : SummaryNotes(summary)) out += line + "\n";
  return out + "```\n";
}

}  // namespace assay
