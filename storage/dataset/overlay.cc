#include "storage/dataset/overlay.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
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

}  // namespace

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
