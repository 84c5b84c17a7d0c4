#include "storage/dataset/tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "storage/base/case_collision.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr char kTreeRule[] = "SEAL-1(c)/SEAL-2";
constexpr uint64_t kChecksumsBytesMax = uint64_t{64} << 20;
constexpr int kDepthMax = 32;

std::vector<std::string> Segments(std::string_view path) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    out.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// Segments of `path` from `carrier`, resolved; nothing when it leaves the root.
std::optional<std::vector<std::string>> Normalize(std::string_view path, std::string_view carrier) {
  std::vector<std::string> out;
  const std::string whole = std::string(carrier) + "/" + std::string(path);
  for (const std::string& part : Segments(whole)) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      out.push_back(part);
    } else if (out.empty()) {
      return std::nullopt;
    } else {
      out.pop_back();
    }
  }
  return out;
}

bool LooksLikeCredential(const std::vector<std::string>& segments) {
  static const std::set<std::string> folders = {".secrets", ".ssh", ".aws", ".gnupg", ".git"};
  static const std::set<std::string> names = {
      ".hf_token",        "hf_token", ".env",       ".netrc",           ".npmrc",
      ".git-credentials", "id_rsa",   "id_ed25519", "credentials.json", "service-account.json"};
  for (const std::string& part : segments) {
    if (folders.contains(part)) return true;
  }
  const std::string& name = segments.back();
  const auto ends = [&](std::string_view tail) {
    return name.size() >= tail.size() &&
           name.compare(name.size() - tail.size(), tail.size(), tail) == 0;
  };
  return names.contains(name) || ends(".pem") || ends(".key") || ends(".p12") || ends(".pfx");
}

Finding Problem(std::string code, std::string message) {
  return {std::move(code), kTreeRule, std::move(message)};
}

// Regular files by their path from the root, or the first link or credential-like name.
class Walk {
 public:
  explicit Walk(const std::string& root) : root_(root) { Visit("", 0); }
  const std::vector<std::string>& files() const { return files_; }
  const std::optional<Finding>& problem() const { return problem_; }

 private:
  void Visit(const std::string& folder, int depth) {
    const auto names = ListDirectory(JoinPath(root_, folder));
    if (!names.ok() || depth > kDepthMax) {
      problem_ = Problem("missing_file", (folder.empty() ? root_ : folder) + " can't be listed");
      return;
    }
    for (const std::string& name : *names) {
      if (problem_) return;
      Entry(folder.empty() ? name : folder + "/" + name, depth);
    }
  }

  void Entry(const std::string& path, int depth) {
    struct stat info;
    if (lstat(JoinPath(root_, path).c_str(), &info) != 0) {
      problem_ = Problem("missing_file", path + " vanished");
    } else if (S_ISLNK(info.st_mode)) {
      problem_ = Problem("symlink", path + " is a symbolic link; a dataset holds plain files");
    } else if (LooksLikeCredential(Segments(path))) {
      problem_ = Problem("credential_in_tree", path + " looks like a credential; take it away");
    } else if (S_ISDIR(info.st_mode)) {
      Visit(path, depth + 1);
    } else if (S_ISREG(info.st_mode)) {
      files_.push_back(path);
    } else {
      problem_ = Problem("unlisted_file", path + " is neither a file nor a folder");
    }
  }

  const std::string& root_;
  std::vector<std::string> files_;
  std::optional<Finding> problem_;
};

// Digests by path, or what is wrong with the list.
std::optional<Finding> ParseChecksums(std::string_view text,
                                      std::map<std::string, std::string>* out) {
  int64_t number = 0;
  for (const std::string& raw : [&] {
         std::vector<std::string> lines;
         for (size_t at = 0; at < text.size();) {
           const size_t end = std::min(text.find('\n', at), text.size());
           lines.emplace_back(text.substr(at, end - at));
           at = end + 1;
         }
         return lines;
       }()) {
    ++number;
    if (raw.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string digest = raw.substr(0, 64), path = raw.size() > 66 ? raw.substr(66) : "";
    if (raw.size() < 67 || raw.compare(64, 2, "  ") != 0 || !IsSha256Hex(digest) ||
        !IsDatasetPath(path, "", false) || !out->emplace(path, digest).second) {
      return Problem("seal_failed",
                     "line " + std::to_string(number) +
                         " of checksums.txt is no digest, two blanks and a path that "
                         "stands there once");
    }
  }
  return std::nullopt;
}

}  // namespace

bool IsDatasetPath(std::string_view path, std::string_view carrier, bool parents) {
  if (path.empty() || path[0] == '/' || path[0] == '\\') return false;
  if (path.find('\0') != std::string_view::npos || path.find("://") != std::string_view::npos)
    return false;
  const std::vector<std::string> segments = Segments(path);
  if (segments[0].find(':') != std::string::npos) return false;
  if (!parents && std::find(segments.begin(), segments.end(), "..") != segments.end()) return false;
  const auto resolved = Normalize(path, carrier);
  return resolved && !resolved->empty();
}

std::string ResolveDatasetPath(std::string_view path, std::string_view carrier) {
  std::string out;
  const auto segments = Normalize(path, carrier);
  if (!segments) return out;
  for (const std::string& part : *segments) out += (out.empty() ? "" : "/") + part;
  return out;
}

void CheckPaths(const Json& document, const std::string& name, std::string_view carrier,
                Findings* findings) {
  static const std::set<std::string> keys = {"file",
                                             "token_file",
                                             "attention_mask_file",
                                             "panel_file",
                                             "manifest_file",
                                             "checksums_file",
                                             "head_json",
                                             "dir",
                                             "remap_file",
                                             "runtime_manifest",
                                             "receipt"};
  if (document.is_array()) {
    for (const Json& item : document) CheckPaths(item, name, carrier, findings);
  }
  if (!document.is_object()) return;
  for (const auto& [key, value] : document.items()) {
    CheckPaths(value, name, carrier, findings);
    if (!value.is_string() || !keys.contains(key)) continue;
    const std::string& path = value.get_ref<const std::string&>();
    if (path.rfind("http://", 0) == 0 || path.rfind("https://", 0) == 0) continue;
    if (IsDatasetPath(path, carrier, key == "runtime_manifest")) continue;
    findings->errors.push_back(
        {"path_escape", "PATH-1/PATH-3",
         name + ": " + key + " \"" + path.substr(0, 200) + "\" is no path inside the dataset"});
  }
}

std::optional<std::string> FindInDataset(const std::string& root, std::string_view relative) {
  if (!IsDatasetPath(relative, "", false)) return std::nullopt;
  std::string at = root;
  struct stat info;
  for (const std::string& part : Segments(relative)) {
    at = JoinPath(at, part);
    if (lstat(at.c_str(), &info) != 0 || S_ISLNK(info.st_mode)) return std::nullopt;
  }
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  return at;
}

std::optional<Finding> CheckTree(const std::string& root, const std::string& checksums,
                                 bool allow_partial) {
  const auto text = ReadFile(JoinPath(root, checksums), kChecksumsBytesMax);
  if (!text.ok()) return Problem("seal_failed", MessageOf(text.status()));
  std::map<std::string, std::string> listed;
  if (auto problem = ParseChecksums(*text, &listed)) return problem;
  const Walk walk(root);
  if (walk.problem()) return walk.problem();
  if (const std::string names = CaseCollision(walk.files()); !names.empty()) {
    return Problem("case_collision", names + " are one name where case does not count; rename one");
  }
  std::set<std::string> present;
  for (const std::string& path : walk.files()) {
    if (path == checksums || path == "fidelity-dataset.json") continue;
    present.insert(path);
    if (!listed.contains(path)) {
      return Problem("unlisted_file", path + " is not in checksums.txt; take it away");
    }
  }
  for (const auto& [path, digest] : listed) {
    if (present.contains(path) || (allow_partial && path.rfind("capture/", 0) == 0)) continue;
    return Problem("missing_file",
                   path + " is in checksums.txt and not in the folder; fetch it again");
  }
  std::string bad;
  bool in_capture = false;
  for (const std::string& path : present) {
    const auto digest = Sha256File(JoinPath(root, path));
    if (digest.ok() && *digest == listed[path]) continue;
    bad += (bad.empty() ? "" : ", ") + path;
    in_capture = in_capture || path.rfind("capture/", 0) == 0;
  }
  if (bad.empty()) return std::nullopt;
  return Problem(in_capture ? "tensor_mismatch" : "seal_failed",
                 "not the bytes that checksums.txt states: " + bad + "; fetch them again");
}

}  // namespace assay
