// Terminal, Markdown and CSV forms of a summary.

#include <algorithm>

#include "storage/base/number_format.h"
#include "storage/report/summary_text.h"

namespace assay {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kNameWidth = 31;
constexpr size_t kCellWidth = 31;  // an interval of two six-digit numbers fits
constexpr size_t kCandidatesPerBlock = 2;

std::string Pad(const std::string& text, size_t width) {
  return text.size() >= width ? text : text + std::string(width - text.size(), ' ');
}

// Breaks at blanks so that lines stay within the width; continuation lines are indented.
void AppendWrapped(const std::string& line, std::string* out) {
  std::string rest = line;
  std::string indent;
  while (indent.size() + rest.size() > kColumns) {
    size_t cut = rest.rfind(' ', kColumns - indent.size());
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

std::vector<const Json*> Scored(const Json& summary) {
  std::vector<const Json*> out;
  for (const Json& candidate : summary.at("candidates")) {
    if (candidate.at("failed").is_null()) out.push_back(&candidate);
  }
  return out;
}

// "504 positions in 8 contexts, policy exact, cpu-bf16", once for all candidates that share it.
std::string Scope(const std::vector<const Json*>& scored) {
  std::vector<std::string> lines;
  for (const Json* c : scored) {
    std::string line = std::to_string(c->at("positions").get<uint64_t>()) + " positions in " +
                       std::to_string(c->at("contexts").get<uint64_t>()) + " contexts, policy " +
                       c->at("policy").get<std::string>() + ", " +
                       c->at("backend").get<std::string>();
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

void AppendRow(const SummaryRow& row, std::string* out) {
  std::string line = Pad(row.name, kNameWidth);
  for (const std::string& cell : row.cells) line.append("  ").append(Pad(cell, kCellWidth));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  *out += line + "\n";
}

// Labels above their columns. One that is too long goes on below: where two models differ is often
// at the end, and labels that are cut would look alike.
void AppendHeading(const std::vector<const Json*>& block, const std::string& head,
                   std::string* out) {
  size_t longest = 0;
  for (const Json* candidate : block) {
    longest = std::max(longest, candidate->at("label").get<std::string>().size());
  }
  for (size_t begin = 0; begin < longest; begin += kCellWidth) {
    SummaryRow row;
    if (begin == 0) row.name = head == "own" ? "as served" : "body only";
    for (const Json* candidate : block) {
      const std::string label = candidate->at("label").get<std::string>();
      row.cells.push_back(label.substr(std::min(begin, label.size()), kCellWidth));
    }
    AppendRow(row, out);
  }
}

void AppendBlock(const std::vector<const Json*>& block, const std::string& head, std::string* out) {
  AppendHeading(block, head, out);
  *out += std::string(kNameWidth + block.size() * (kCellWidth + 2), '-') + "\n";
  for (const SummaryRow& row : SummaryRows(block, head)) AppendRow(row, out);
  *out += "\n";
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    out += c;
    if (c == '"') out += c;
  }
  return out + "\"";
}

// A value with all its digits; empty for null.
std::string CsvValue(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return PythonFloat(value.get<double>());
  return value.is_null() ? "" : value.dump();
}

constexpr const char* kCsvHeader =
    "label,head,status,mean_kl_ref_cand,infinite_count,ci95_low,ci95_high,clusters,p50_kl_ref_cand,"
    "p99_kl_ref_cand,p999_kl_ref_cand,max_kl_ref_cand,mean_kl_cand_ref,mean_jsd_bits,same_top1,"
    "mean_accept_rate,perplexity_ref,perplexity_cand,smallest_resolvable_difference,contexts,"
    "positions,byte_identical,noise_kl_ref_cand,file_bytes,body_bits_per_weight,"
    "head_bits_per_weight,embedding_bits_per_weight,receipt_id,report_sha256\r\n";

std::vector<std::string> CsvLine(const Json& candidate, const std::string& head) {
  const Json& h = candidate.at("heads").at(head);
  const Json& bootstrap = h.at("context_bootstrap");
  const Json& sizes = candidate.at("sizes");
  const auto bits = [&](const char* part) {
    return CsvValue(sizes.at(part).at("bits_per_weight"));
  };
  return {CsvValue(candidate.at("label")),
          head,
          "scored",
          CsvValue(h.at("mean_kl_ref_cand").at("value")),
          CsvValue(h.at("mean_kl_ref_cand").at("infinite_count")),
          CsvValue(bootstrap.at("ci95_low")),
          CsvValue(bootstrap.at("ci95_high")),
          CsvValue(bootstrap.at("clusters")),
          CsvValue(h.at("p50_kl_ref_cand")),
          CsvValue(h.at("p99_kl_ref_cand")),
          CsvValue(h.at("p999_kl_ref_cand")),
          CsvValue(h.at("max_kl_ref_cand")),
          CsvValue(h.at("mean_kl_cand_ref").at("value")),
          CsvValue(h.at("mean_jsd_bits").at("value")),
          CsvValue(h.at("same_top1").at("fraction")),
          CsvValue(h.at("mean_accept_rate").at("value")),
          CsvValue(h.at("perplexity_ref")),
          CsvValue(h.at("perplexity_cand")),
          CsvValue(h.at("smallest_resolvable_difference")),
          CsvValue(candidate.at("contexts")),
          CsvValue(candidate.at("positions")),
          CsvValue(candidate.at("noise_floor").at("byte_identical")),
          CsvValue(candidate.at("noise_floor").at("mean_kl_ref_cand")),
          CsvValue(sizes.at("file_bytes")),
          bits("body"),
          bits("head"),
          bits("embedding"),
          candidate.at("receipt_id").is_null() ? "UNSEALED" : CsvValue(candidate.at("receipt_id")),
          CsvValue(candidate.at("report_sha256"))};
}

}  // namespace

std::string SummaryTable(const Json& summary) {
  const std::vector<const Json*> scored = Scored(summary);
  std::string out = Scope(scored) + "\n";
  for (const std::string& head : HeadsOf(summary)) {
    for (size_t i = 0; i < scored.size(); i += kCandidatesPerBlock) {
      const size_t end = std::min(i + kCandidatesPerBlock, scored.size());
      AppendBlock({scored.begin() + static_cast<ptrdiff_t>(i),
                   scored.begin() + static_cast<ptrdiff_t>(end)},
                  head, &out);
    }
  }
  for (const std::string& line : SummaryNotes(summary)) AppendWrapped(line, &out);
  return out;
}

std::string SummaryMarkdown(const Json& summary) {
  const std::vector<const Json*> scored = Scored(summary);
  std::string out = "# Assay summary\n\n" + Scope(scored) + "\n";
  for (const std::string& head : HeadsOf(summary)) {
    out.append("## ").append(HeadTitle(head)).append("\n\n| |");
    std::string rule = "|---|";
    for (const Json* candidate : scored) {
      out.append(" ").append(candidate->at("label").get<std::string>()).append(" |");
      rule += "---|";
    }
    out += "\n" + rule + "\n";
    for (const SummaryRow& row : SummaryRows(scored, head)) {
      out += "| " + row.name + " |";
      for (const std::string& cell : row.cells) out.append(" ").append(cell).append(" |");
      out += "\n";
    }
    out += "\n";
  }
  out += "```\n";
  for (const std::string& line : SummaryNotes(summary)) out += line + "\n";
  return out + "```\n";
}

std::string SummaryCsv(const Json& summary) {
  std::string out = kCsvHeader;
  const size_t columns = static_cast<size_t>(std::count(out.begin(), out.end(), ',')) + 1;
  const auto append = [&](std::vector<std::string> fields) {
    fields.resize(columns);
    for (size_t i = 0; i < fields.size(); ++i) {
      if (i > 0) out += ',';
      out += CsvField(fields[i]);
    }
    out += "\r\n";
  };
  for (const Json& candidate : summary.at("candidates")) {
    if (!candidate.at("failed").is_null()) {
      append({candidate.at("label").get<std::string>(), "",
              "failed: " + candidate.at("failed").at("reason").get<std::string>()});
      continue;
    }
    for (const auto& [head, value] : candidate.at("heads").items()) {
      append(CsvLine(candidate, head));
    }
  }
  return out;
}

}  // namespace assay
