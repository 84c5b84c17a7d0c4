#include "storage/seal/pack.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <set>

#include "storage/base/atomic_file.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/tar.h"
#include "storage/report/candidate_files.h"
#include "storage/seal/gates.h"
#include "storage/seal/verify_summary.h"

namespace assay {
namespace {

constexpr size_t kManifestBytesMax = size_t{64} << 20;

absl::Status Bad(const std::string& path, const std::string& why) {
  return InvalidError("PACK_INVALID",
                      path + ": " + why + "; fetch the file again, or have it packed again");
}

bool IsCandidate(const std::string& folder) {
  return FileExists(JoinPath(folder, kReportFile)) || FileExists(JoinPath(folder, kReceiptFile));
}

// Paths below `out` of what a result consists of.
class Collector {
 public:
  Collector(std::string out, bool positions) : out_(std::move(out)), positions_(positions) {}

  absl::Status Run() {
    if (IsCandidate(out_)) return Candidate("");
    std::set<std::string, std::less<>> names = {
        std::string(kSummaryFile), std::string(kPublicKeyFile), std::string(kIndexPageFile)};
    names.insert(kSummaryTexts.begin(), kSummaryTexts.end());
    ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> found, ListDirectory(out_));
    for (const std::string& name : found) {
      if (IsCandidate(JoinPath(out_, name))) {
        any_ = true;
        ASSAY_RETURN_IF_ERROR(Candidate(name + "/"));
      } else if (names.count(name) != 0) {
        ASSAY_RETURN_IF_ERROR(Add(name));
      } else {
        left_out.push_back(name);
      }
    }
    if (any_) return absl::OkStatus();
    return NotFoundError("NOTHING_TO_PACK",
                         out_ +
                             " holds no result; give the --out folder of a run, or a "
                             "candidate's folder in it");
  }

  std::vector<std::string> paths, left_out;

 private:
  absl::Status Candidate(const std::string& prefix) {
    const std::set<std::string, std::less<>> names = {
        std::string(kReportFile), std::string(kExecutionFile), std::string(kReceiptFile),
        std::string(kPublicKeyFile), std::string(kCandidatePageFile)};
    ASSAY_ASSIGN_OR_RETURN(const auto found, ListDirectory(JoinPath(out_, prefix + ".")));
    for (const std::string& name : found) {
      if (names.count(name) != 0) {
        ASSAY_RETURN_IF_ERROR(Add(prefix + name));
      } else if (name != kPositionsFolder) {
        left_out.push_back(prefix + name);
      } else if (positions_) {
        ASSAY_RETURN_IF_ERROR(Positions(prefix + name + "/"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Positions(const std::string& prefix) {
    ASSAY_ASSIGN_OR_RETURN(const auto heads, ListDirectory(JoinPath(out_, prefix + ".")));
    for (const std::string& head : heads) {
      ASSAY_ASSIGN_OR_RETURN(const auto files, ListDirectory(JoinPath(out_, prefix + head)));
      for (const std::string& file : files) ASSAY_RETURN_IF_ERROR(Add(prefix + head + "/" + file));
    }
    return absl::OkStatus();
  }

  absl::Status Add(const std::string& path) {
    struct stat info {};
    const std::string full = JoinPath(out_, path);
    if (lstat(full.c_str(), &info) != 0) return ErrnoError(errno, full);
    if (!S_ISREG(info.st_mode)) {
      return InvalidError("LINK_REFUSED", full + " is no plain file; put the file itself there");
    }
    paths.push_back(path);
    return absl::OkStatus();
  }

  const std::string out_;
  const bool positions_;
  bool any_ = false;
};

absl::Status AppendFile(AtomicFile* out, const std::string& name, std::string_view bytes) {
  ASSAY_ASSIGN_OR_RETURN(const std::string header, TarHeader(name, bytes.size()));
  ASSAY_RETURN_IF_ERROR(out->Append(header));
  ASSAY_RETURN_IF_ERROR(out->Append(bytes));
  return out->Append(TarPadding(bytes.size()));
}

std::string_view TextOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Listed {
  uint64_t size = 0;
  std::string sha256;
};

absl::StatusOr<std::map<std::string, Listed>> ReadManifest(std::string_view bytes,
                                                           const std::string& where,
                                                           bool* positions) {
  ASSAY_ASSIGN_OR_RETURN(const Json json, ParseJson(bytes, where));
  const JsonFields fields(json, where);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  if (schema != kPackSchema) return fields.Invalid("schema", "is not assay-pack/1");
  ASSAY_ASSIGN_OR_RETURN(*positions, fields.Bool("positions"));
  ASSAY_ASSIGN_OR_RETURN(const Json* files, fields.Array("files"));
  std::map<std::string, Listed> out;
  for (const Json& file : *files) {
    const JsonFields in(file, where + ": files");
    ASSAY_ASSIGN_OR_RETURN(const std::string path, in.String("path"));
    Listed listed;
    ASSAY_ASSIGN_OR_RETURN(const int64_t size,
                           in.Int("size", 0, static_cast<int64_t>(kTarFileBytesMax)));
    listed.size = static_cast<uint64_t>(size);
    ASSAY_ASSIGN_OR_RETURN(listed.sha256, in.Sha256("sha256"));
    if (!out.emplace(path, std::move(listed)).second)
      return Bad(where, "names \"" + path.substr(0, 200) + "\" twice");
  }
  return out;
}

}  // namespace

absl::StatusOr<PackedFiles> PackResult(const std::string& out, bool positions,
                                       const std::string& file) {
  Collector collector(out, positions);
  ASSAY_RETURN_IF_ERROR(collector.Run());
  std::sort(collector.paths.begin(), collector.paths.end());
  PackedFiles packed;
  packed.left_out = std::move(collector.left_out);
  Json manifest = {{"schema", kPackSchema}, {"positions", positions}, {"files", Json::array()}};
  for (const std::string& path : collector.paths) {
    const std::string full = JoinPath(out, path);
    ASSAY_ASSIGN_OR_RETURN(const uint64_t size, FileSize(full));
    ASSAY_ASSIGN_OR_RETURN(const std::string sha256, Sha256File(full));
    manifest["files"].push_back({{"path", path}, {"size", size}, {"sha256", sha256}});
    packed.bytes += size;
    ++packed.files;
  }
  ASSAY_ASSIGN_OR_RETURN(const auto archive, AtomicFile::Create(file));
  const std::string prefix(kPackPrefix);
  ASSAY_RETURN_IF_ERROR(AppendFile(archive.get(), prefix + std::string(kPackManifest),
                                   PythonPrettyJson(manifest) + "\n"));
  for (const Json& entry : manifest["files"]) {
    const std::string path = entry["path"].get<std::string>();
    ASSAY_ASSIGN_OR_RETURN(const auto mapping, MappedFile::Open(JoinPath(out, path)));
    if (Sha256Hex(TextOf(mapping->bytes())) != entry["sha256"])
      return DataLossError("FILE_CHANGED", JoinPath(out, path) + " changed while it was packed");
    ASSAY_RETURN_IF_ERROR(AppendFile(archive.get(), prefix + path, TextOf(mapping->bytes())));
  }
  ASSAY_RETURN_IF_ERROR(archive->Append(TarEnd()));
  ASSAY_RETURN_IF_ERROR(archive->Commit());
  return packed;
}

bool IsPackedResult(const std::string& path) {
  if (!FileExists(path)) return false;
  const auto mapping = MappedFile::Open(path);
  if (!mapping.ok() || (*mapping)->size() < kTarBlock) return false;
  const std::string_view head = TextOf((*mapping)->bytes().first(kTarBlock));
  return head.substr(0, kPackPrefix.size()) == kPackPrefix &&
         head.find("ustar") != std::string_view::npos;
}

absl::StatusOr<std::shared_ptr<const UnpackedResult>> UnpackedResult::Open(
    const std::string& path, const std::string& work) {
  const char* temp = std::getenv("TMPDIR");
  const std::string below = !work.empty() ? work : temp != nullptr && *temp != 0 ? temp : "/tmp";
  std::string pattern = JoinPath(below, "assay-result-XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) return ErrnoError(errno, "making a folder in " + below);
  auto out = std::shared_ptr<UnpackedResult>(new UnpackedResult());
  out->root_ = pattern;
  out->folder_ = JoinPath(pattern, "result");
  ASSAY_RETURN_IF_ERROR(out->Unpack(path));
  return std::shared_ptr<const UnpackedResult>(std::move(out));
}

UnpackedResult::~UnpackedResult() {
  if (!root_.empty()) (void)RemoveTree(root_);
}

absl::Status UnpackedResult::Unpack(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const auto mapping, MappedFile::Open(path));
  TarReader reader(mapping->bytes(), path);
  std::map<std::string, Listed> listed;
  for (bool first = true;; first = false) {
    ASSAY_ASSIGN_OR_RETURN(const auto entry, reader.Next());
    if (!entry) break;
    if (entry->name.rfind(kPackPrefix, 0) != 0)
      return Bad(path, "\"" + entry->name.substr(0, 200) + "\" is no part of a result");
    const std::string name = entry->name.substr(kPackPrefix.size());
    const std::string_view bytes = TextOf(entry->bytes);
    if (first) {
      if (name != kPackManifest || bytes.size() > kManifestBytesMax)
        return Bad(path, "its first file is not " + std::string(kPackManifest));
      ASSAY_ASSIGN_OR_RETURN(listed, ReadManifest(bytes, path + ": " + name, &positions_));
      continue;
    }
    const auto at = listed.find(name);
    if (at == listed.end()) return Bad(path, "\"" + name.substr(0, 200) + "\" is not listed");
    if (at->second.size != bytes.size() || Sha256Hex(bytes) != at->second.sha256) {
      return DataLossError("DIGEST_MISMATCH", path + ": " + name +
                                                  " does not have the listed size and digest; "
                                                  "fetch the file again");
    }
    listed.erase(at);
    const std::string target = JoinPath(folder_, name);
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(target), 0700));
    ASSAY_RETURN_IF_ERROR(WriteFile(target, bytes));
  }
  if (!listed.empty())
    return Bad(path, "\"" + listed.begin()->first.substr(0, 200) + "\" is listed and not there");
  return EnsureDirectory(folder_, 0700);
}

Verification VerifyPackedResult(const std::string& path, const std::string& key_path) {
  const auto unpacked = UnpackedResult::Open(path);
  GateList gates;
  if (!unpacked.ok()) {
    gates.Fail(path, "pack", ReasonOf(unpacked.status()), MessageOf(unpacked.status()));
    return gates.Finish(false);
  }
  Verification out = VerifyDirectory((*unpacked)->folder(), key_path,
                                     /*without_positions=*/!(*unpacked)->positions());
  out.gates.insert(out.gates.begin(), {path, "pack", GateState::kPass, "",
                                       path + " holds what its list says, and nothing else"});
  const std::string folder = (*unpacked)->folder();
  for (Gate& gate : out.gates) {
    for (std::string* text : {&gate.subject, &gate.message}) {
      for (size_t at = text->find(folder); at != std::string::npos; at = text->find(folder, at)) {
        const bool inside = text->compare(at + folder.size(), 1, "/") == 0;
        text->replace(at, folder.size() + (inside ? 1 : 0), inside ? path + ":" : path);
        at += path.size();
      }
    }
  }
  return out;
}

}  // namespace assay
