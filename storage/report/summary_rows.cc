#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include "storage/report/summary.h"
#include "storage/report/summary_text.h"

namespace assay {
namespace {

constexpr size_t kWorstShown = 5;

std::string Number(const Json& value, const char* format = "%.6g") {
  if (!value.is_number()) return "-";
  char text[64];
  std::snprintf(text, sizeof text, format, value.get<double>());
  return text;
}

std::string Mean(const Json& mean) {
  if (!mean.at("value").is_null()) return Number(mean.at("value"));
  return "infinite at " + std::to_string(mean.at("infinite_count").get<uint64_t>());
}

std::string Interval(const Json& bootstrap) {
  if (!bootstrap.at("refused").is_null()) {
    return "none (" + std::to_string(bootstrap.at("clusters").get<uint64_t>()) + " clusters)";
  }
  std::string out = "[";
  out += Number(bootstrap.at("ci95_low")) + ", " + Number(bootstrap.at("ci95_high"));
  out += "]";
  return out;
}

std::string Percent(const Json& fraction) {
  if (fraction.at("fraction").is_null()) return "-";
  return Number(Json(100.0 * fraction.at("fraction").get<double>()), "%.2f %%");
}

std::string Bytes(const Json& bytes) {
  if (!bytes.is_number()) return "-";
  const double value = bytes.get<double>();
  if (value >= 1e9) return Number(Json(value / 1e9), "%.3f GB");
  if (value >= 1e6) return Number(Json(value / 1e6), "%.1f MB");
  return Number(bytes, "%.0f B");
}

std::string NoiseFloor(const Json& noise) {
  if (noise.at("byte_identical").is_null()) return "not measured";
  return noise.at("byte_identical").get<std::string>() + " equal, KLD " +
         Number(noise.at("mean_kl_ref_cand"));
}

std::string Worst(const Json& indices) {
  std::string out;
  for (size_t i = 0; i < indices.size() && i < kWorstShown; ++i) {
    if (i > 0) out += ' ';
    out += std::to_string(indices[i].get<int64_t>());
  }
  return out;
}

class RowBuilder {
 public:
  RowBuilder(const std::vector<const Json*>& candidates, std::string head)
      : candidates_(candidates), head_(std::move(head)) {}

  // One cell per candidate from the head's figures; "-" where the candidate lacks the head.
  void Head(const std::string& name, const std::function<std::string(const Json&)>& cell) {
    Candidate(name, [&](const Json& candidate) -> std::string {
      const Json& heads = candidate.at("heads");
      return heads.contains(head_) ? cell(heads.at(head_)) : "-";
    });
  }
  void Candidate(const std::string& name, const std::function<std::string(const Json&)>& cell) {
    SummaryRow row{name, {}};
    bool shown = false;
    for (const Json* candidate : candidates_) {
      row.cells.push_back(candidate->at("failed").is_null() ? cell(*candidate) : "-");
      shown = shown || row.cells.back() != "-";
    }
    if (shown) rows_.push_back(std::move(row));
  }
  std::vector<SummaryRow> Take() { return std::move(rows_); }

 private:
  const std::vector<const Json*>& candidates_;
  std::string head_;
  std::vector<SummaryRow> rows_;
};

std::set<std::string> Strata(const std::vector<const Json*>& candidates, const std::string& head) {
  std::set<std::string> names;
  for (const Json* candidate : candidates) {
    if (!candidate->at("failed").is_null() || !candidate->at("heads").contains(head)) continue;
    for (const auto& [name, group] : candidate->at("heads").at(head).at("strata").items()) {
      names.insert(name);
    }
  }
  return names;
}

void SizeRows(RowBuilder* rows) {
  rows->Candidate("File size", [](const Json& c) {
    const Json& sizes = c.at("sizes");
    const std::string text = Bytes(sizes.at("file_bytes"));
    return text != "-" && sizes.at("what_if").get<bool>() ? text + " (source)" : text;
  });
  for (const char* part : {"body", "head", "embedding"}) {
    rows->Candidate(std::string("Bits per weight, ") + part, [&](const Json& c) {
      return Number(c.at("sizes").at(part).at("bits_per_weight"), "%.4g");
    });
  }
}

// Two reports of different arithmetic were compared because somebody asked.
std::string NumericNote(const Json& comparison) {
  if (!comparison.contains("numeric_difference")) return "";
  std::string out = "; ARITHMETIC DIFFERS:";
  for (const Json& reason : comparison.at("numeric_difference")) {
    out += " " + reason.at("code").get<std::string>();
    if (reason.at("a").is_string() && reason.at("b").is_string()) {
      out +=
          " (" + reason.at("a").get<std::string>() + ", " + reason.at("b").get<std::string>() + ")";
    }
  }
  return out + "; part of this may be arithmetic";
}

void FileLines(const Json& candidate, std::vector<std::string>* out) {
  out->push_back(candidate.at("label").get<std::string>());
  out->push_back(std::string("  report   ") +
                 candidate.at("files").at("report").get<std::string>());
  const Json& receipt = candidate.at("receipt_id");
  out->push_back(std::string("  receipt  ") +
                 (receipt.is_null() ? "UNSEALED" : receipt.get<std::string>()));
  for (const auto& [head, folder] : candidate.at("files").at("positions").items()) {
    out->push_back(std::string("  arrays   ") + folder.get<std::string>());
  }
}

}  // namespace

std::string PairText(const Json& pair) {
  const std::string name = pair.at("a").get<std::string>() + " minus " +
                           pair.at("b").get<std::string>() + " (" +
                           (pair.at("head") == "own" ? "as served" : "body only") + "): ";
  if (!pair.at("not_comparable").is_null()) {
    return name + "not comparable, " + pair.at("not_comparable").get<std::string>();
  }
  const Json& c = pair.at("comparison");
  return name + Number(c.at("difference_a_minus_b")) + " nats " +
         Interval(c.at("bootstrap_difference")) + "; lower in " +
         std::to_string(c.at("a_wins").get<uint64_t>()) + ", higher in " +
         std::to_string(c.at("b_wins").get<uint64_t>()) + ", equal in " +
         std::to_string(c.at("ties").get<uint64_t>()) + " contexts" + NumericNote(c);
}

std::vector<SummaryRow> SummaryRows(const std::vector<const Json*>& candidates,
                                    const std::string& head) {
  RowBuilder rows(candidates, head);
  const auto mean = [&](const char* name, const char* key) {
    rows.Head(name, [key](const Json& h) { return Mean(h.at(key)); });
  };
  const auto number = [&](const char* name, const char* key) {
    rows.Head(name, [key](const Json& h) { return Number(h.at(key)); });
  };
  mean("Mean KLD (nats)", "mean_kl_ref_cand");
  rows.Head("  95 % cluster bootstrap",
            [](const Json& h) { return Interval(h.at("context_bootstrap")); });
  number("Median KLD", "p50_kl_ref_cand");
  number("99 % KLD", "p99_kl_ref_cand");
  number("99.9 % KLD", "p999_kl_ref_cand");
  number("Max KLD", "max_kl_ref_cand");
  mean("Reverse KLD (nats)", "mean_kl_cand_ref");
  mean("JSD (bits)", "mean_jsd_bits");
  rows.Head("Same top", [](const Json& h) { return Percent(h.at("same_top1")); });
  mean("Accept rate", "mean_accept_rate");
  number("PPL reference", "perplexity_ref");
  number("PPL candidate", "perplexity_cand");
  for (const std::string& stratum : Strata(candidates, head)) {
    rows.Head("Mean KLD, " + stratum, [&](const Json& h) -> std::string {
      const Json& strata = h.at("strata");
      return strata.contains(stratum) ? Mean(strata.at(stratum).at("mean_kl_ref_cand")) : "-";
    });
  }
  number("Smallest resolvable difference", "smallest_resolvable_difference");
  rows.Candidate("Noise floor (repeat captures)",
                 [](const Json& c) { return NoiseFloor(c.at("noise_floor")); });
  SizeRows(&rows);
  rows.Head("Worst contexts", [](const Json& h) { return Worst(h.at("worst_contexts")); });
  return rows.Take();
}

std::vector<std::string> SummaryNotes(const Json& summary) {
  std::vector<std::string> out;
  for (const Json& pair : summary.at("pairs")) out.push_back(PairText(pair));
  if (!out.empty()) out.emplace_back();
  // A disclosure that several candidates share is said once.
  std::vector<std::pair<std::string, std::string>> said;
  for (const Json& candidate : summary.at("candidates")) {
    const std::string label = candidate.at("label").get<std::string>();
    if (!candidate.at("failed").is_null()) {
      const Json& failed = candidate.at("failed");
      out.push_back(label + ": FAILED [" + failed.at("reason").get<std::string>() + "] " +
                    failed.at("message").get<std::string>());
      continue;
    }
    for (const Json& disclosure : candidate.at("disclosures")) {
      const std::string text = disclosure.at("text").get<std::string>();
      const auto same = std::find_if(said.begin(), said.end(),
                                     [&](const auto& entry) { return entry.first == text; });
      if (same == said.end()) {
        said.emplace_back(text, label);
      } else {
        same->second += ", " + label;
      }
    }
  }
  for (const auto& [text, labels] : said) out.push_back("Note (" + labels + "): " + text);
  if (!out.empty() && !out.back().empty()) out.emplace_back();
  for (const Json& candidate : summary.at("candidates")) {
    if (candidate.at("failed").is_null()) FileLines(candidate, &out);
  }
  return out;
}

}  // namespace assay
