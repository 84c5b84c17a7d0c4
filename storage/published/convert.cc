#include "storage/published/convert.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "storage/base/atomic_file.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/published/convert_dataset.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFilesMax = size_t{1} << 20;
constexpr uint64_t kConversionBytesMax = uint64_t{512} << 20;

absl::Status Refused(const std::string& dir, const std::string& why) {
  return PreconditionError("CONVERSION_REFUSED", dir + ": " + why);
}

absl::Status CheckOut(const std::string& out) {
  if (!FileExists(out) && !IsDirectory(out)) return absl::OkStatus();
  return Error(absl::StatusCode::kAlreadyExists, "OUT_OCCUPIED",
               out + " exists already; give a folder that does not");
}

// Regular files below `dir`, as sorted relative paths. A dataset's tree has no links; those of
// other captures may lead into the blobs of their cache (checked by the gates before).
absl::StatusOr<std::vector<std::string>> FilesBelow(const std::string& dir) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; it != end && !error;
       it.increment(error)) {
    const std::string name = fs::relative(it->path(), dir, error).string();
    if (it->is_directory(error) && !it->is_symlink(error)) continue;
    if (!it->is_regular_file(error))
      return Refused(dir, name + " is no regular file, so it could not be given back");
    if (!IsSafeRelativePath(name)) return Refused(dir, "\"" + name + "\" is no safe name");
    out.push_back(name);
    if (out.size() > kFilesMax) return Refused(dir, "it has too many files");
  }
  if (error) return ErrnoError(error.value(), "listing " + dir);
  std::sort(out.begin(), out.end());
  return out;
}

// Copies a file and returns its digest: what was read is what was hashed.
absl::StatusOr<std::string> CopyFile(const std::string& from, const std::string& to,
                                     uint64_t* bytes) {
  ASSAY_ASSIGN_OR_RETURN(const auto mapping, MappedFile::Open(from));
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(to)));
  ASSAY_ASSIGN_OR_RETURN(const auto out, AtomicFile::Create(to));
  ASSAY_RETURN_IF_ERROR(out->Append(mapping->bytes()));
  ASSAY_RETURN_IF_ERROR(out->Commit());
  Sha256 hash;
  hash.Update(mapping->bytes());
  *bytes += mapping->size();
  return hash.FinishHex();
}

std::string Prefixed(const char* folder, const std::string& name) {
  return std::string(folder) + "/" + name;
}

bool IsHidden(const std::string& name) {
  return name.rfind("hidden_", 0) == 0 && name.ends_with(".safetensors");
}

// Where a published file lies in a conversion.
std::string PlaceOf(CaptureForm form, const std::string& path) {
  if (form == CaptureForm::kDataset) {
    if (path.rfind("capture/hidden_", 0) == 0) return path;
    return path == "head/weight.safetensors" ? path : Prefixed("published", path);
  }
  const bool manifest = path == kCaptureManifestName && form == CaptureForm::kCurrent;
  return Prefixed(IsHidden(path) || manifest ? "capture" : "published", path);
}

// The manifest of the converted capture; nothing for a current one, which keeps its own.
absl::StatusOr<Json> ManifestOf(const CaptureFolder& folder, const Suite* suite,
                                const std::string& dir) {
  const CaptureManifest& manifest = folder.manifest;
  Json out;
  if (folder.form == CaptureForm::kGlm) {
    out = manifest.json;
    out["schema"] = std::string(kCaptureSchema);
  } else {
    if (suite == nullptr)
      return Refused(dir,
                     "a legacy capture does not state its contexts; give its suite with --suite");
    CaptureWriterInfo info;
    const Json& model = manifest.json.contains("model") ? manifest.json["model"] : Json();
    info.model_name = model.is_string() ? model.get<std::string>() : "";
    if (manifest.json.contains("candidate_identity"))
      info.candidate_identity = manifest.json["candidate_identity"];
    for (const char* filter : {"all", "analysis", "qualification", "sentinel"}) {
      const auto selected = SelectContexts(*suite, filter);
      std::set<int64_t> indices, recorded;
      if (selected.ok()) {
        for (const size_t position : *selected) indices.insert(suite->contexts[position].index);
      }
      for (const CaptureRecord& record : manifest.records) recorded.insert(record.index);
      if (indices == recorded && info.filter.empty()) info.filter = filter;
    }
    if (info.filter.empty())
      return Refused(dir, "it holds neither all contexts of the suite nor one of its partitions");
    out = BuildCaptureManifest(*suite, info, manifest.records, /*complete=*/true);
  }
  out["converted_from"] = {{"form", CaptureFormName(folder.form)},
                           {"rule", manifest.legacy ? Json(kLegacyCaptureRule) : Json()},
                           {"manifest_sha256", Sha256Hex(folder.manifest_bytes)}};
  return out;
}

class Converter {
 public:
  Converter(const std::string& dir, const Suite* suite, std::string staging, int threads)
      : dir_(dir), suite_(suite), staging_(std::move(staging)), threads_(threads) {}

  absl::StatusOr<Conversion> Run() {
    CaptureCheckOptions options;
    options.suite = suite_;
    options.threads = threads_;
    const PublishedExamination gates = ExamineCaptureFolder(dir_, options);
    for (const PublishedCheck& check : gates.checks) {
      if (check.outcome == PublishedOutcome::kFail)
        return Refused(dir_, "gate " + check.gate + " failed: " + check.detail);
    }
    ASSAY_RETURN_IF_ERROR(IsDatasetFolder(dir_) ? WriteDataset() : WriteCapture());
    ASSAY_RETURN_IF_ERROR(CopyPublished());
    ASSAY_RETURN_IF_ERROR(
        WriteFile(JoinPath(staging_, kConversionFile), PythonPrettyJson(document_) + "\n"));
    ASSAY_RETURN_IF_ERROR(CheckResult());
    return out_;
  }

 private:
  absl::Status WriteDataset() {
    out_.form = CaptureForm::kDataset;
    ASSAY_ASSIGN_OR_RETURN(const DatasetAsCapture made, CaptureOfDataset(dir_));
    for (const auto& [name, bytes] : made.files) {
      const std::string path = JoinPath(staging_, name);
      ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(path)));
      ASSAY_RETURN_IF_ERROR(WriteFile(path, bytes));
    }
    return absl::OkStatus();
  }

  absl::Status WriteCapture() {
    ASSAY_ASSIGN_OR_RETURN(const CaptureFolder folder, ReadCaptureFolder(dir_));
    out_.form = folder.form;
    if (folder.form == CaptureForm::kCurrent) return absl::OkStatus();
    ASSAY_ASSIGN_OR_RETURN(const Json manifest, ManifestOf(folder, suite_, dir_));
    const std::string capture = JoinPath(staging_, "capture");
    ASSAY_RETURN_IF_ERROR(EnsureDirectory(capture));
    return WriteFile(JoinPath(capture, kCaptureManifestName), PythonPrettyJson(manifest));
  }

  absl::Status CopyPublished() {
    ASSAY_ASSIGN_OR_RETURN(const auto paths, FilesBelow(dir_));
    document_["schema"] = kConversionSchema;
    document_["form"] = CaptureFormName(out_.form);
    document_["files"] = Json::array();
    for (const std::string& path : paths) {
      const std::string place = PlaceOf(out_.form, path);
      ASSAY_ASSIGN_OR_RETURN(
          const std::string digest,
          CopyFile(JoinPath(dir_, path), JoinPath(staging_, place), &out_.bytes));
      document_["files"].push_back({{"path", path}, {"at", place}, {"sha256", digest}});
      ++out_.files;
    }
    return absl::OkStatus();
  }

  // What came out is a capture that every command takes.
  absl::Status CheckResult() {
    Suite own;
    const std::string suite_dir = JoinPath(staging_, "suite");
    if (IsDirectory(suite_dir)) {
      ASSAY_ASSIGN_OR_RETURN(own, ReadSuite(suite_dir));
    } else if (suite_ != nullptr) {
      own = *suite_;
    } else {
      return ReadCaptureManifest(JoinPath(staging_, "capture")).status();
    }
    ASSAY_ASSIGN_OR_RETURN(const CaptureManifest manifest,
                           ReadCaptureManifest(JoinPath(staging_, "capture")));
    return OpenCapture(JoinPath(staging_, "capture"), own,
                       manifest.filter.empty() ? "all" : manifest.filter, true)
        .status();
  }

  const std::string dir_;
  const Suite* const suite_;
  const std::string staging_;
  const int threads_;
  Conversion out_;
  Json document_ = Json::object();
};

// Runs `write` on a folder beside `out` and renames it when that succeeded.
template <typename Write>
absl::StatusOr<Conversion> InStaging(const std::string& out, const Write& write) {
  ASSAY_RETURN_IF_ERROR(CheckOut(out));
  const std::string staging = out + ".part." + std::to_string(getpid());
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(staging));
  absl::StatusOr<Conversion> result = write(staging);
  std::error_code error;
  if (result.ok()) fs::rename(staging, out, error);
  if (error) result = ErrnoError(error.value(), "renaming " + staging + " to " + out);
  if (!result.ok()) (void)RemoveTree(staging);
  return result;
}

absl::StatusOr<CaptureForm> FormOf(const std::string& name, const std::string& where) {
  for (const CaptureForm form :
       {CaptureForm::kCurrent, CaptureForm::kLegacy, CaptureForm::kGlm, CaptureForm::kDataset}) {
    if (name == CaptureFormName(form)) return form;
  }
  return InvalidError("CONVERSION_INVALID", where + ": form \"" + name + "\" is not known");
}

absl::StatusOr<Conversion> GiveBack(const std::string& dir, const std::string& staging) {
  const std::string where = JoinPath(dir, kConversionFile);
  ASSAY_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(where, kConversionBytesMax));
  const JsonFields fields(json, where);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  if (schema != kConversionSchema)
    return InvalidError("CONVERSION_INVALID", where + ": is not " + std::string(kConversionSchema));
  Conversion out;
  ASSAY_ASSIGN_OR_RETURN(const std::string form, fields.String("form"));
  ASSAY_ASSIGN_OR_RETURN(out.form, FormOf(form, where));
  ASSAY_ASSIGN_OR_RETURN(const Json* files, fields.Array("files"));
  std::set<std::string> seen;
  for (const Json& file : *files) {
    const JsonFields in(file, where + ": files[" + std::to_string(out.files) + "]");
    ASSAY_ASSIGN_OR_RETURN(const std::string path, in.String("path"));
    ASSAY_ASSIGN_OR_RETURN(const std::string at, in.String("at"));
    ASSAY_ASSIGN_OR_RETURN(const std::string stated, in.Sha256("sha256"));
    if (!IsSafeRelativePath(path) || !IsSafeRelativePath(at))
      return InvalidError("PATH_UNSAFE", in.where() + ": a path leaves the folder");
    if (!seen.insert(path).second)
      return InvalidError("CONVERSION_INVALID", in.where() + ": " + path + " is there twice");
    const std::string from = JoinPath(dir, at);
    ASSAY_ASSIGN_OR_RETURN(const std::string digest,
                           CopyFile(from, JoinPath(staging, path), &out.bytes));
    if (digest != stated) {
      return DataLossError("DIGEST_MISMATCH", from + ": has SHA-256 " + digest +
                                                  ", it was converted from a file with " + stated +
                                                  "; convert the published capture again");
    }
    ++out.files;
  }
  return out;
}

}  // namespace

absl::StatusOr<Conversion> ConvertCapture(const std::string& dir, const Suite* suite,
                                          const std::string& out, int threads) {
  return InStaging(out, [&](const std::string& staging) {
    return Converter(dir, suite, staging, threads).Run();
  });
}

absl::StatusOr<Conversion> ConvertBack(const std::string& dir, const std::string& out) {
  return InStaging(out, [&](const std::string& staging) { return GiveBack(dir, staging); });
}

}  // namespace assay
