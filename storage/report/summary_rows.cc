// The table of up to two candidates: one row per figure, one column per candidate.

#include <functional>
#include <set>

#include "storage/report/summary.h"
#include "storage/report/summary_cells.h"
#include "storage/report/summary_text.h"

namespace assay {
namespace {

constexpr size_t kWorstShown = 5;

std::string NoiseFloor(const Json& noise) {
  if (noise.at("byte_identical").is_null()) return "not measured";
  return noise.at("byte_identical").get<std::string>() + " equal, KLD " +
         NumberCell(noise.at("mean_kl_ref_cand"));
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
    const std::string text = BytesCell(sizes.at("file_bytes"));
    return text != "-" && sizes.at("what_if").get<bool>() ? text + " (source)" : text;
  });
  for (const char* part : {"body", "head", "embedding"}) {
    rows->Candidate(std::string("Bits per weight, ") + part, [&](const Json& c) {
      return NumberCell(c.at("sizes").at(part).at("bits_per_weight"), "%.4g");
    });
  }
}

// Against the best candidate, or the one asked for; nothing where it stands alone.
void VersusRows(RowBuilder* rows) {
  const auto add = [&](const char* name, const std::function<std::string(const Json&)>& cell) {
    rows->Head(name, [cell](const Json& h) -> std::string {
      const Json& versus = h.at("versus");
      if (versus.is_null() || versus.at("comparison").is_null()) return "-";
      return cell(versus.at("comparison"));
    });
  };
  rows->Head("Compared with", [](const Json& h) {
    const Json& versus = h.at("versus");
    return versus.is_null() ? "-" : versus.at("label").get<std::string>();
  });
  add("  difference of Mean KLD (nats)",
      [](const Json& c) { return NumberCell(c.at("difference_a_minus_b")); });
  add("  95 % interval (nats)",
      [](const Json& c) { return IntervalCell(c.at("bootstrap_difference")); });
  add("  distinguishable", DistinguishableCell);
}

void AgreementRows(RowBuilder* rows) {
  const auto fraction = [&](const char* name, const char* key) {
    rows->Head(name, [key](const Json& h) { return FractionCell(h.at(key)); });
  };
  fraction("Same top (%)", "same_top1");
  fraction("Ref. top 1 in top 5 (%)", "ref_top1_in_cand_top5");
  fraction("Ref. top 1 in top 10 (%)", "ref_top1_in_cand_top10");
  rows->Head("Mean delta p (%)",
             [](const Json& h) { return PercentCell(h.at("mean_delta_p").at("value"), "%.3f"); });
  rows->Head("RMS delta p (%)",
             [](const Json& h) { return PercentCell(h.at("rms_delta_p"), "%.3f"); });
  rows->Head("Acceptance rate (%)",
             [](const Json& h) { return PercentCell(h.at("mean_accept_rate").at("value")); });
}

void PerplexityRows(RowBuilder* rows) {
  const auto number = [&](const char* name, const char* key) {
    rows->Head(name, [key](const Json& h) { return NumberCell(h.at(key)); });
  };
  number("PPL(base)", "perplexity_ref");
  number("PPL(Q)", "perplexity_cand");
  const auto ratio = [&](const char* name, const char* key) {
    rows->Head(name,
               [key](const Json& h) { return NumberCell(h.at("ln_perplexity_ratio").at(key)); });
  };
  ratio("PPL(Q)/PPL(base)", "ratio");
  ratio("ln(PPL(Q)/PPL(base)) (nats)", "mean");
  rows->Head("  95 % interval (nats)", [](const Json& h) {
    return IntervalCell(h.at("ln_perplexity_ratio").at("context_bootstrap"));
  });
}

}  // namespace

std::vector<SummaryRow> SummaryRows(const std::vector<const Json*>& candidates,
                                    const std::string& head) {
  RowBuilder rows(candidates, head);
  const auto mean = [&](const char* name, const char* key) {
    rows.Head(name, [key](const Json& h) { return MeanCell(h.at(key)); });
  };
  const auto number = [&](const char* name, const char* key) {
    rows.Head(name, [key](const Json& h) { return NumberCell(h.at(key)); });
  };
  mean("Mean KLD (nats)", "mean_kl_ref_cand");
  rows.Head("  95 % interval (nats)",
            [](const Json& h) { return IntervalCell(h.at("context_bootstrap")); });
  number("Median KLD (nats)", "p50_kl_ref_cand");
  number("99% KLD (nats)", "p99_kl_ref_cand");
  number("99.9% KLD (nats)", "p999_kl_ref_cand");
  number("Maximum KLD (nats)", "max_kl_ref_cand");
  mean("Reverse KLD (nats)", "mean_kl_cand_ref");
  mean("JSD (bits)", "mean_jsd_bits");
  AgreementRows(&rows);
  PerplexityRows(&rows);
  for (const std::string& stratum : Strata(candidates, head)) {
    rows.Head("Mean KLD, " + stratum + " (nats)", [&](const Json& h) -> std::string {
      const Json& strata = h.at("strata");
      return strata.contains(stratum) ? MeanCell(strata.at(stratum).at("mean_kl_ref_cand")) : "-";
    });
  }
  VersusRows(&rows);
  number("Smallest resolvable (nats)", "smallest_resolvable_difference");
  rows.Candidate("Noise floor, repeat captures",
                 [](const Json& c) { return NoiseFloor(c.at("noise_floor")); });
  SizeRows(&rows);
  rows.Head("Worst contexts", [](const Json& h) { return Worst(h.at("worst_contexts")); });
  return rows.Take();
}

}  // namespace assay
