#include "storage/llamacpp/compare.h"

#include <algorithm>
#include <cmath>

#include "storage/base/files.h"
#include "storage/base/for_each_index.h"
#include "storage/base/macros.h"
#include "storage/base/mapped_pages.h"
#include "storage/base/status.h"
#include "storage/report/quantile.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

// Codes round by half a step of scale at most, and the floor adds exp(base) for each column at it.
constexpr double kMassBelow = 1e-3;

std::string Place(const LlamacppLogits& file, int64_t row) {
  return "chunk " + std::to_string(row / file.rows_per_chunk()) + ", position " +
         std::to_string(file.first_position() + row % file.rows_per_chunk());
}

absl::Status CheckAlike(const LlamacppLogits& base, const LlamacppLogits& cand) {
  std::string why;
  const auto differ = [&](const char* what, int64_t a, int64_t b) {
    if (a == b) return;
    why += std::string(why.empty() ? "" : "; ") + what + " " + std::to_string(a) + " and " +
           std::to_string(b);
  };
  differ("tokens of a chunk:", base.context_length(), cand.context_length());
  differ("vocabularies:", base.vocab_size(), cand.vocab_size());
  differ("chunks:", base.chunks(), cand.chunks());
  if (base.coding() != cand.coding()) {
    why += std::string(why.empty() ? "" : "; ") +
           "codings: " + std::string(LlamacppCodingName(base.coding())) + " and " +
           std::string(LlamacppCodingName(cand.coding()));
  }
  if (why.empty()) {
    for (int64_t c = 0; c < base.chunks() && why.empty(); ++c) {
      const auto a = base.Tokens(c), b = cand.Tokens(c);
      const auto at = std::mismatch(a.begin(), a.end(), b.begin());
      if (at.first == a.end()) continue;
      why = "chunk " + std::to_string(c) + ", position " + std::to_string(at.first - a.begin()) +
            ": tokens " + std::to_string(*at.first) + " and " + std::to_string(*at.second);
    }
  }
  if (why.empty()) return absl::OkStatus();
  return PreconditionError("LLAMACPP_DIFFERS",
                           base.path() + " and " + cand.path() + " can't be compared: " + why +
                               ". Write both over the same text with the same -c and --chunks");
}

// A clipped row's mass is 1 and what the floor added; anything else is damage that no checksum
// tells.
absl::Status CheckMass(const LlamacppLogits& file, const LlamacppRow& row, double mass) {
  const double added =
      file.coding() == LlamacppCoding::kV2
          ? 0
          : std::exp(static_cast<double>(row.base)) *
                static_cast<double>(std::count(row.codes.begin(), row.codes.end(), 0));
  if (mass > 1 - kMassBelow && mass < 1 + kMassBelow + added) return absl::OkStatus();
  return InvalidError("LLAMACPP_INVALID",
                      file.path() + ": its probabilities add up to " + std::to_string(mass) +
                          " instead of 1, so the row is damaged; write the file again");
}

Json MeanAndQuantiles(std::vector<double> values) {
  Json out;
  out["mean"] = ExactMean(values);
  std::sort(values.begin(), values.end());
  for (const auto& [name, q] :
       {std::pair("p50", 0.5), {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}}) {
    out[name] = LinearQuantile(values, q);
  }
  out["max"] = values.back();
  return out;
}

}  // namespace

absl::StatusOr<std::vector<LogitsPairRow>> CompareLogitsFiles(const LlamacppLogits& base,
                                                              const LlamacppLogits& cand,
                                                              int threads) {
  ASSAY_RETURN_IF_ERROR(CheckAlike(base, cand));
  std::vector<LogitsPairRow> out(static_cast<size_t>(base.rows()));
  ASSAY_RETURN_IF_ERROR(ForEachIndex(base.rows(), threads, [&](int64_t row) -> absl::Status {
    const LlamacppRow a = base.Row(row), b = cand.Row(row);
    auto compared = CompareLogits(a, b, base.coding(), base.Target(row));
    if (!compared.ok()) return Annotate(compared.status(), Place(base, row));
    ASSAY_RETURN_IF_ERROR(Annotate(CheckMass(base, a, compared->mass_base), Place(base, row)));
    ASSAY_RETURN_IF_ERROR(Annotate(CheckMass(cand, b, compared->mass_cand), Place(base, row)));
    out[static_cast<size_t>(row)] = *compared;
    return absl::OkStatus();
  }));
  return out;
}

absl::StatusOr<std::vector<LlamacppToolRow>> ToolRowsOfRaw(const LlamacppLogits& base,
                                                           const std::string& path, int threads) {
  if (base.coding() == LlamacppCoding::kV2) {
    return InvalidError("LLAMACPP_INVALID",
                        base.path() +
                            ": llama-perplexity does not read _logits2 files, so it has no "
                            "numbers for them");
  }
  ASSAY_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  const auto vocab = static_cast<uint64_t>(base.vocab_size());
  const uint64_t expected = 4 * vocab * static_cast<uint64_t>(base.rows());
  if (file->size() != expected) {
    return InvalidError("LLAMACPP_INVALID", path + ": has " + std::to_string(file->size()) +
                                                " bytes; float32 logits of " +
                                                std::to_string(base.rows()) + " rows and " +
                                                std::to_string(vocab) + " columns have " +
                                                std::to_string(expected) +
                                                "; two logits files are compared by assay logits "
                                                "compare");
  }
  std::vector<LlamacppToolRow> out(static_cast<size_t>(base.rows()));
  ASSAY_RETURN_IF_ERROR(ForEachIndex(base.rows(), threads, [&](int64_t row) -> absl::Status {
    const auto bytes = file->bytes().subspan(static_cast<uint64_t>(row) * vocab * 4, vocab * 4);
    const std::span logits(reinterpret_cast<const float*>(bytes.data()), vocab);
    for (size_t i = 0; i < logits.size(); ++i) {
      if (std::isfinite(logits[i])) continue;
      return InvalidError("LLAMACPP_INVALID", path + ": " + Place(base, row) + ", column " +
                                                  std::to_string(i) + " is no finite number");
    }
    out[static_cast<size_t>(row)] = ToolRow(base.Row(row), logits, base.Target(row));
    return absl::OkStatus();
  }));
  return out;
}

Json SummarizeLogitsRows(const std::vector<LogitsPairRow>& rows) {
  const auto column = [&](double LogitsPairRow::*field) {
    std::vector<double> out;
    out.reserve(rows.size());
    for (const LogitsPairRow& row : rows) out.push_back(row.*field);
    return out;
  };
  int64_t same = 0;
  for (const LogitsPairRow& row : rows) same += row.top1_base == row.top1_cand ? 1 : 0;
  Json out;
  out["rows"] = rows.size();
  out["kl_renorm"] = MeanAndQuantiles(column(&LogitsPairRow::kl_renorm));
  out["kl_reverse_renorm"] = MeanAndQuantiles(column(&LogitsPairRow::kl_reverse_renorm));
  out["jsd_renorm_bits"] = MeanAndQuantiles(column(&LogitsPairRow::jsd_renorm_bits));
  out["kl_lumped"] = MeanAndQuantiles(column(&LogitsPairRow::kl_lumped));
  out["kl_skip16"] = MeanAndQuantiles(column(&LogitsPairRow::kl_skip16));
  out["same_top"] = static_cast<double>(same) / static_cast<double>(rows.size());
  out["nll_base"] = ExactMean(column(&LogitsPairRow::nll_base));
  out["nll_cand"] = ExactMean(column(&LogitsPairRow::nll_cand));
  const std::vector<double> mass_base = column(&LogitsPairRow::mass_base);
  const std::vector<double> mass_cand = column(&LogitsPairRow::mass_cand);
  out["mass_base_max"] = *std::max_element(mass_base.begin(), mass_base.end());
  out["mass_cand_max"] = *std::max_element(mass_cand.begin(), mass_cand.end());
  return out;
}

}  // namespace assay
