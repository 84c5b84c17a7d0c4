// summary.csv: a candidate's figures with all their digits. New columns go to the end.

#include <algorithm>

#include "storage/base/number_format.h"
#include "storage/report/summary_text.h"

namespace assay {
namespace {

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
    "head_bits_per_weight,embedding_bits_per_weight,receipt_id,report_sha256,mean_delta_p,"
    "rms_delta_p,ref_top1_in_cand_top1,ref_top1_in_cand_top5,ref_top1_in_cand_top10,"
    "ln_perplexity_ratio,ln_perplexity_ratio_ci95_low,ln_perplexity_ratio_ci95_high,"
    "perplexity_ratio,versus,difference,difference_ci95_low,difference_ci95_high,distinguishable,"
    "distinguishable_among_all,reference_file_bytes,reference_body_bits_per_weight\r\n";

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

// What was added to summary.csv later than the fields of CsvLine.
std::vector<std::string> CsvLineEnd(const Json& candidate, const std::string& head) {
  const Json& h = candidate.at("heads").at(head);
  const Json& ratio = h.at("ln_perplexity_ratio");
  const Json& reference = candidate.at("reference_sizes");
  const Json versus = h.at("versus").is_null() ? Json(nullptr) : h.at("versus").at("comparison");
  const auto of_versus = [&](const char* pointer) {
    return versus.is_null() ? "" : CsvValue(versus.at(Json::json_pointer(pointer)));
  };
  return {CsvValue(h.at("mean_delta_p").at("value")),
          CsvValue(h.at("rms_delta_p")),
          CsvValue(h.at("ref_top1_in_cand_top1").at("fraction")),
          CsvValue(h.at("ref_top1_in_cand_top5").at("fraction")),
          CsvValue(h.at("ref_top1_in_cand_top10").at("fraction")),
          CsvValue(ratio.at("mean")),
          CsvValue(ratio.at("context_bootstrap").at("ci95_low")),
          CsvValue(ratio.at("context_bootstrap").at("ci95_high")),
          CsvValue(ratio.at("ratio")),
          h.at("versus").is_null() ? "" : CsvValue(h.at("versus").at("label")),
          of_versus("/difference_a_minus_b"),
          of_versus("/bootstrap_difference/ci95_low"),
          of_versus("/bootstrap_difference/ci95_high"),
          of_versus("/distinguishable"),
          of_versus("/simultaneous/distinguishable"),
          CsvValue(reference.at("file_bytes")),
          CsvValue(reference.at("body").at("bits_per_weight"))};
}

}  // namespace

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
      std::vector<std::string> fields = CsvLine(candidate, head);
      for (std::string& field : CsvLineEnd(candidate, head)) fields.push_back(std::move(field));
      append(std::move(fields));
    }
  }
  return out;
}

}  // namespace assay
