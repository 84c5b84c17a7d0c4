#include "storage/dataset/overlay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/compare.h"
#include "storage/dataset/verify.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// The folder of "datasets/X", or a copy of the base of "overlays/X" with its change.
absl::StatusOr<std::string> Prepare(const std::string& folder, const Json& overlays,
                                    const std::string& name, const std::string& work) {
  if (name.rfind("overlays/", 0) != 0) return JoinPath(folder, name);
  for (const Json& overlay : overlays) {
    if ("overlays/" + overlay.at("name").get<std::string>() != name) continue;
    const fs::path target = JoinPath(work, "dataset");
    std::error_code failed;
    fs::remove_all(target, failed);
    fs::copy(JoinPath(folder, overlay.at("base").get<std::string>()), target,
             fs::copy_options::recursive, failed);
    for (const Json& path : overlay.at("delete"))
      fs::remove(target / path.get<std::string>(), failed);
    for (const auto& [path, to] : overlay.at("symlink").items()) {
      fs::create_symlink(to.get<std::string>(), target / path, failed);
    }
    const std::string changed = JoinPath(folder, name);
    if (IsDirectory(changed)) {
      fs::copy(changed, target, fs::copy_options::recursive | fs::copy_options::overwrite_existing,
               failed);
    }
    if (failed) return InternalError("FILE_IO", name + ": " + failed.message());
    return target.string();
  }
  return NotFoundError("FILE_MISSING", "overlays.json has no " + name);
}

std::string Listed(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& finding : findings) out += finding.code + " " + finding.rule + "; ";
  return out;
}

std::string Listed(const Json& findings) {
  std::string out;
  for (const Json& finding : findings) {
    out +=
        finding.at("code").get<std::string>() + " " + finding.at("rule").get<std::string>() + "; ";
  }
  return out;
}

constexpr double kTolerance = 1e-14;

DatasetCompareOptions OptionsOf(const std::string& folder, const Json& wanted) {
  DatasetCompareOptions out;
  if (wanted.contains("vocab_chunk")) out.vocab_chunk = wanted.at("vocab_chunk").get<int64_t>();
  out.position_block = wanted.value("position_block", int64_t{128});
  out.self_compare = wanted.value("self_compare", false);
  out.force_compute = wanted.value("force_compute", false);
  out.allow_cross_lane = wanted.value("allow_cross_lane", false);
  out.allow_partial = wanted.value("allow_partial", false);
  out.disclose_head_substitution = wanted.value("disclose_head_substitution", false);
  out.own_heads = wanted.value("own_heads", false);
  if (wanted.contains("head_path"))
    out.head = JoinPath(folder, wanted.at("head_path").get<std::string>());
  return out;
}

// The first number or text of `want` that `got` does not hold, to the tolerance.
std::string Differs(const std::string& where, const Json& got, const Json& want) {
  if (want.is_object()) {
    for (const auto& [key, value] : want.items()) {
      if (!got.is_object() || !got.contains(key)) return where + "." + key + " is missing";
      const std::string problem = Differs(where + "." + key, got.at(key), value);
      if (!problem.empty()) return problem;
    }
    return "";
  }
  const bool equal = want.is_number_float() && got.is_number()
                         ? std::fabs(got.get<double>() - want.get<double>()) <= kTolerance
                         : got == want;
  return equal ? "" : where + " is " + got.dump() + " instead of " + want.dump();
}

std::string CheckTokenwise(const std::string& path, const DatasetComparison& got) {
  const auto want = ReadFile(path, uint64_t{64} << 20);
  if (!want.ok()) return MessageOf(want.status());
  const std::string bytes = TokenwiseNpy(got.windows);
  if (bytes.size() != want->size() || bytes.compare(0, 128, *want, 0, 128) != 0)
    return "another array than " + path;
  for (size_t at = 128; at < bytes.size(); at += sizeof(double)) {
    double a, b;
    std::memcpy(&a, bytes.data() + at, sizeof a);
    std::memcpy(&b, want->data() + at, sizeof b);
    if (!(std::fabs(a - b) <= kTolerance) || (b == 0 && (a != 0 || std::signbit(a)))) {
      return "value " + std::to_string((at - 128) / sizeof a) + " is " + Json(a).dump() +
             " instead of " + Json(b).dump();
    }
  }
  return "";
}

}  // namespace

std::string CheckCompareAnswer(const std::string& folder, const Json& entry) {
  const auto side = [&](const char* key) {
    return JoinPath(folder, entry.at(key).get<std::string>());
  };
  const DatasetComparison got =
      CompareDatasets(side("reference"), side("candidate"), OptionsOf(folder, entry.at("options")));
  const auto& refusal = got.relation.refusal;
  const std::string outcome = refusal ? "refuse " + refusal->gate + " " + refusal->code : "ok";
  const std::string wanted = entry.at("outcome") == "ok"
                                 ? "ok"
                                 : "refuse " + entry.at("gate").get<std::string>() + " " +
                                       entry.at("code").get<std::string>();
  if (outcome != wanted) return outcome + " instead of " + wanted;
  if (refusal) return "";
  const Json head = {
      {"comparison_kind", entry.at("comparison_kind")}, {"class", entry.at("cls")},
      {"usable_as_floor", entry.at("usable_as_floor")}, {"stack_relation", entry.at("stack")},
      {"head_policy", entry.at("head_policy")},         {"disclosures", entry.at("disclosures")},
      {"top1_agreement", entry.at("top1_agreement")}};
  std::string problem = Differs("comparison", got.summary, head);
  if (!problem.empty()) return problem;
  const std::string receipt_path = JoinPath(folder, entry.at("receipt").get<std::string>());
  const auto receipt = ReadJsonFile(receipt_path);
  if (!receipt.ok()) return MessageOf(receipt.status());
  for (const char* key :
       {"kl", "per_stratum", "per_domain", "context_depth_buckets", "kl_macro_stratum_mean"}) {
    problem = Differs(key, got.summary.at(key), receipt->at(key));
    if (!problem.empty()) return problem;
  }
  return CheckTokenwise(JoinPath(DirName(receipt_path), "tokenwise-kld.npy"), got);
}

std::string CheckVerifyAnswer(const std::string& folder, const Json& overlays, const Json& entry,
                              const std::string& work) {
  const auto root = Prepare(folder, overlays, entry.at("name").get<std::string>(), work);
  if (!root.ok()) return MessageOf(root.status());
  const Json& wanted = entry.at("options");
  DatasetOptions options;
  options.manifest_only = wanted.value("manifest_only", false);
  options.allow_partial = wanted.value("allow_partial", false);
  options.verify_tensors = wanted.value("verify_tensors", true);
  const DatasetVerdict got = VerifyDataset(*root, options);
  if (Listed(got.findings.errors) != Listed(entry.at("errors"))) {
    return "errors " + Listed(got.findings.errors) + "instead of " + Listed(entry.at("errors"));
  }
  if (Listed(got.findings.warnings) != Listed(entry.at("warnings"))) {
    return "warnings " + Listed(got.findings.warnings) + "instead of " +
           Listed(entry.at("warnings"));
  }
  // The published list has seal.checksums only where it passed, and every other gate that ran.
  std::vector<std::string> names;
  for (const DatasetGate& gate : got.gates) {
    if (gate.name != "seal.checksums" || gate.passed) names.push_back(gate.name);
  }
  std::sort(names.begin(), names.end());
  return Json(names) == entry.at("checks_run") ? "" : "gates " + Json(names).dump();
}

}  // namespace assay
