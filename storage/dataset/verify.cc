#include "storage/dataset/verify.h"

#include <functional>
#include <optional>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/tree.h"

namespace assay {
namespace {

constexpr uint64_t kDocumentBytesMax = uint64_t{256} << 20;

class Verifier {
 public:
  Verifier(const std::string& root, const DatasetOptions& options) : options_(options) {
    documents_.root = root;
  }

  DatasetVerdict Run() {
    if (LoadManifest()) {
      Gate("schema", [&] { CheckShape(); });
      Gate("seal.manifest", [&] { CheckManifestSeal(); });
      if (!options_.manifest_only) RunTree();
    }
    out_.documents = std::move(documents_);
    return std::move(out_);
  }

 private:
  void Error(std::string code, std::string rule, std::string message) {
    out_.findings.errors.push_back({std::move(code), std::move(rule), std::move(message)});
  }

  void Gate(const std::string& name, const std::function<void()>& body) {
    const size_t errors = out_.findings.errors.size();
    body();
    out_.gates.push_back({name, out_.findings.errors.size() == errors});
  }

  // A gate whose name says how many things it looked at.
  void CountedGate(const std::string& name, const std::function<int64_t()>& body) {
    const size_t errors = out_.findings.errors.size();
    const int64_t count = body();
    out_.gates.push_back(
        {name + "(" + std::to_string(count) + ")", out_.findings.errors.size() == errors});
  }

  bool LoadManifest() {
    const auto manifest =
        ReadJsonFile(JoinPath(documents_.root, "fidelity-dataset.json"), kDocumentBytesMax);
    if (!manifest.ok()) {
      Error("bad_schema", "SCHEMA", MessageOf(manifest.status()));
      return false;
    }
    documents_.manifest = *manifest;
    const Json& version = DatasetMember(*manifest, {"format_version"});
    if (DatasetMember(*manifest, {"schema"}) != "malaiwah.fidelity-dataset.v1" ||
        DatasetInt(version) != 1) {
      Error("bad_schema", "SCHEMA",
            "fidelity-dataset.json: schema " + DatasetText(DatasetMember(*manifest, {"schema"})) +
                ", format_version " + version.dump() +
                "; malaiwah.fidelity-dataset.v1 and 1 are read");
      return false;
    }
    return true;
  }

  // The members without which the checks below would have nothing to look at.
  void CheckShape() {
    for (const char* block : {"dataset", "weights", "scope", "panel", "capture", "head", "runtime",
                              "determinism", "seal", "coverage", "interop"}) {
      if (DatasetMember(documents_.manifest, {block}).is_object()) continue;
      Error("schema_invalid", "SCHEMA",
            std::string("fidelity-dataset.json: \"") + block + "\" is no object");
    }
    if (!DatasetMember(documents_.manifest, {"disclosures"}).is_array()) {
      Error("schema_invalid", "SCHEMA", "fidelity-dataset.json: \"disclosures\" is no list");
    }
    for (const auto& path : {std::pair("capture", "manifest_file"),
                             {"panel", "panel_file"},
                             {"runtime", "file"},
                             {"seal", "checksums_file"}}) {
      if (DatasetMember(documents_.manifest, {path.first, path.second}).is_string()) continue;
      Error("schema_invalid", "SCHEMA",
            std::string("fidelity-dataset.json: ") + path.first + "." + path.second +
                " names no file");
    }
  }

  void CheckManifestSeal() {
    if (DatasetMember(documents_.manifest, {"dataset_sha256"}) !=
        DatasetSeal(documents_.manifest, "dataset_sha256")) {
      Error("seal_failed", "SEAL-1(a)",
            "fidelity-dataset.json was changed after it was sealed (dataset_sha256)");
    }
    CheckPaths(documents_.manifest, "fidelity-dataset.json", "", &out_.findings);
  }

  void CheckChecksums() {
    const std::string name =
        DatasetText(DatasetMember(documents_.manifest, {"seal", "checksums_file"}));
    const auto path = FindInDataset(documents_.root, name);
    if (!path) return Error("seal_failed", "SEAL-1(b)", name + " is not in the folder");
    const auto digest = Sha256File(*path);
    if (!digest.ok() ||
        DatasetMember(documents_.manifest, {"seal", "checksums_sha256"}) != *digest) {
      Error("seal_failed", "SEAL-1(b)", name + " has another digest than the manifest states");
    }
    const auto problem = CheckTree(documents_.root, name, options_.allow_partial);
    if (problem) out_.findings.errors.push_back(*problem);
  }

  // One document that the manifest names: read, sealed by itself, and with the digest that is
  // stated for it.
  std::optional<Json> Load(const char* rule, const Json& file, const char* carrier) {
    const auto path = FindInDataset(documents_.root, DatasetText(file));
    if (!path) {
      Error("missing_file", rule, DatasetText(file) + " is not in the folder");
      return std::nullopt;
    }
    auto document = ReadJsonFile(*path, kDocumentBytesMax);
    if (!document.ok() || !document->is_object()) {
      Error("bad_schema", rule,
            document.ok() ? DatasetText(file) + " is no object" : MessageOf(document.status()));
      return std::nullopt;
    }
    if (DatasetMember(*document, {"receipt_sha256"}) != DatasetSeal(*document, "receipt_sha256")) {
      Error("seal_failed", "SEAL-1(g)",
            DatasetText(file) + " was changed after it was sealed (receipt_sha256)");
    }
    CheckPaths(*document, DatasetText(file), carrier, &out_.findings);
    return *document;
  }

  void CheckFileDigest(const Json& file, const Json& digest) {
    const auto path = FindInDataset(documents_.root, DatasetText(file));
    if (!path) return;  // said already
    const auto found = Sha256File(*path);
    if (found.ok() && digest == *found) return;
    Error("digest_mismatch", "SEAL-1",
          DatasetText(file) + " has another digest than the manifest states");
  }

  bool LoadDocuments() {
    const Json& manifest = documents_.manifest;
    const Json& capture_file = DatasetMember(manifest, {"capture", "manifest_file"});
    const Json& panel_file = DatasetMember(manifest, {"panel", "panel_file"});
    const Json& runtime_file = DatasetMember(manifest, {"runtime", "file"});
    const Json& head_file = DatasetMember(manifest, {"head", "head_json"});
    auto capture = Load("CAPTURE", capture_file, "capture");
    auto panel = Load("PANEL", panel_file, "panel");
    std::optional<Json> head = Json();
    if (!head_file.is_null()) head = Load("HEAD", head_file, "head");
    auto runtime = Load("RUNTIME", runtime_file, "runtime");
    CheckFileDigest(capture_file, DatasetMember(manifest, {"capture", "manifest_file_sha256"}));
    CheckFileDigest(panel_file, DatasetMember(manifest, {"panel", "panel_file_sha256"}));
    CheckFileDigest(runtime_file, DatasetMember(manifest, {"runtime", "file_sha256"}));
    if (!capture || !panel || !runtime || !head) return false;
    documents_.capture = std::move(*capture);
    documents_.panel = std::move(*panel);
    documents_.runtime = std::move(*runtime);
    documents_.head = std::move(*head);
    for (const auto& [name, document] :
         {std::pair("capture manifest", &documents_.capture), {"panel", &documents_.panel}}) {
      const Json& records = DatasetMember(*document, {"records"});
      bool objects = records.is_array();
      if (objects) {
        for (const Json& record : records) objects = objects && record.is_object();
      }
      if (objects) continue;
      Error("schema_invalid", "SCHEMA", std::string("the ") + name + " has no list of records");
      return false;
    }
    return true;
  }

  void RunTree() {
    Gate("seal.checksums", [&] { CheckChecksums(); });
    bool loaded = false;
    Gate("seal.submanifests", [&] { loaded = LoadDocuments(); });
    if (!loaded) return;
    Findings* f = &out_.findings;
    Gate("digest.capture_content", [&] { CheckContentDigest(); });
    Gate("records", [&] { CheckRecords(documents_, f); });
    Gate("panel.aggregate", [&] { CheckPanelAggregate(documents_, f); });
    CountedGate("panel.tokens", [&] { return CheckPanelTokens(documents_, options_, f); });
    Gate("panel.binding", [&] { CheckBinding(documents_, f); });
    Gate("coverage", [&] { CheckCoverage(documents_, options_, f); });
    Gate("head", [&] { CheckHead(documents_, f); });
    Gate("determinism", [&] { CheckDeterminism(documents_, f); });
    Gate("role", [&] { CheckRole(documents_, f); });
    Gate("scope_vocabulary", [&] {
      CheckScope(documents_, f);
      CheckLaneAndRemap(documents_, f);
    });
    if (options_.verify_tensors)
      CountedGate("tensors", [&] { return CheckTensors(documents_, f); });
  }

  void CheckContentDigest();

  const DatasetOptions& options_;
  DatasetDocuments documents_;
  DatasetVerdict out_;
};

// SHA-256 of "<index>:<tensor digest>" lines in the order of their indices.
void Verifier::CheckContentDigest() {
  const auto digest = DatasetContentDigest(documents_.capture.at("records"));
  if (!digest) {
    return Error("digest_mismatch", "5.2",
                 "capture/manifest.json: two records have one index, or one has no tensor digest");
  }
  for (const auto& [name, stated] :
       {std::pair("fidelity-dataset.json",
                  &DatasetMember(documents_.manifest, {"capture", "capture_content_digest"})),
        {"capture/manifest.json",
         &DatasetMember(documents_.capture, {"capture_content_digest"})}}) {
    if (*stated == *digest) continue;
    Error("digest_mismatch", "5.2",
          std::string(name) + ": capture_content_digest is not that of its records");
  }
}

}  // namespace

DatasetVerdict VerifyDataset(const std::string& root, const DatasetOptions& options) {
  return Verifier(root, options).Run();
}

}  // namespace assay
