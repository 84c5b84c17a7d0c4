#include "worker/group/offline_capture.h"

#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "storage/base/build_info.h"
#include "storage/base/clock.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/out_folder.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/digest_cache.h"
#include "storage/format/model_manifest.h"
#include "storage/format/suite.h"

namespace assay {
namespace {

constexpr int64_t kIndexMax = int64_t{1} << 40;
constexpr char kEngineName[] = "assay-native";

// One capture in progress.
class Capture {
 public:
  Capture(const OfflineCaptureRequest& request, const OfflineHooks& hooks)
      : request_(request), hooks_(hooks), start_ms_(Clock::Real()->MonotonicMillis()) {}

  absl::StatusOr<OfflineCaptureResult> Run(const OfflineRanks& ranks);

 private:
  absl::Status ReadInputs();
  absl::Status Describe(Group& group, const std::string& work);
  absl::Status AdoptEarlier();
  absl::Status CheckEarlierFile(const CaptureRecord& record);
  absl::Status CaptureMissing(Group& group, const std::string& work);
  absl::Status Publish(const std::string& folder, const Json& files,
                       const std::vector<size_t>& asked);
  absl::Status WriteManifest(bool complete);
  std::string ModelName() const;
  Json ManifestNow(bool complete) const;

  const OfflineCaptureRequest& request_;
  const OfflineHooks& hooks_;
  const int64_t start_ms_;
  Suite suite_;
  std::vector<size_t> selected_;  // positions in suite_.contexts
  ModelManifest model_;
  CaptureWriterInfo info_;
  std::map<int64_t, CaptureRecord> records_;
  OfflineCaptureResult result_;
};

std::string Capture::ModelName() const {
  std::string name = BaseName(request_.model.path);
  if (!model_.transform.empty()) name += "@" + model_.transform;
  return name;
}

absl::Status Capture::ReadInputs() {
  ASSAY_ASSIGN_OR_RETURN(suite_, ReadSuite(request_.suite_dir));
  ASSAY_ASSIGN_OR_RETURN(std::vector<size_t> selected, SelectContexts(suite_, request_.filter));
  if (request_.limit > 0) selected = LimitContexts(suite_, selected, request_.limit);
  // From here on the suite has the captured contexts alone: the manifest expects no others.
  std::vector<SuiteContext> contexts;
  for (const size_t position : selected) {
    selected_.push_back(contexts.size());
    contexts.push_back(std::move(suite_.contexts[position]));
  }
  suite_.contexts = std::move(contexts);
  ASSAY_ASSIGN_OR_RETURN(const std::unique_ptr<DigestCache> cache,
                         DigestCache::Open(request_.digest_cache));
  ASSAY_ASSIGN_OR_RETURN(
      model_, MakeModelManifest(request_.model.path, request_.model.transform, cache.get()));
  result_.model_identity = model_.Identity();
  return absl::OkStatus();
}

// Fills info_: who the model is, by its files, and which kernels capture it.
absl::Status Capture::Describe(Group& group, const std::string& work) {
  const Json unit = {
      {"kind", "prepare"},
      {"model", {{"path", request_.model.path}, {"transform", request_.model.transform}}}};
  ASSAY_ASSIGN_OR_RETURN(const UnitOutcome prepared, group.Run(unit, JoinPath(work, "prepare")));
  const Json& facts = prepared.result.at("facts");
  ASSAY_RETURN_IF_ERROR(CheckTokensBelow(suite_, facts.at("vocab").get<int64_t>()));
  info_.model_name = ModelName();
  info_.filter = request_.filter.empty() ? "all" : request_.filter;
  Json shards = Json::object();
  for (const ModelFile& file : model_.files) {
    if (file.path == "config.json") info_.candidate_identity["config_sha256"] = file.sha256;
    const bool index = file.path == "model.safetensors.index.json";
    if (index) info_.candidate_identity["index_sha256"] = file.sha256;
    if (file.path.rfind(".json") == std::string::npos) shards[file.path] = file.sha256;
  }
  info_.candidate_identity["shard_sha256"] = shards;
  info_.candidate_identity["quantization"] =
      model_.transform.empty() ? Json(nullptr) : Json(model_.transform);
  info_.candidate_identity["assay_model"] = {
      {"manifest", model_.ToJson()}, {"identity", model_.Identity()}, {"facts", facts}};
  const Json& capture = group.identity().at("capture");
  if (capture.is_null()) {
    return PreconditionError("CAPTURE_ENGINE_MISSING",
                             "assay-rank found no libassay_capture.so beside it, or could not load "
                             "it; install the whole build and libtorch");
  }
  info_.runtime = {{"engine", kEngineName}, {"kernels", capture}, {"transform", model_.transform}};
  if (request_.limit > 0) info_.runtime["limit"] = request_.limit;
  info_.stack = {{"engine", kEngineName}, {"build", BuildId()}, {"kernels", capture}};
  return absl::OkStatus();
}

Json Capture::ManifestNow(bool complete) const {
  CaptureWriterInfo info = info_;
  info.elapsed_sec = static_cast<double>(Clock::Real()->MonotonicMillis() - start_ms_) / 1000.0;
  std::vector<CaptureRecord> records;
  for (const auto& [index, record] : records_) records.push_back(record);
  return BuildCaptureManifest(suite_, info, records, complete);
}

absl::Status Capture::WriteManifest(bool complete) {
  result_.manifest = ManifestNow(complete);
  return WriteFileAtomic(JoinPath(request_.out, kCaptureManifestName),
                         PythonPrettyJson(result_.manifest) + "\n");
}

absl::Status Capture::CheckEarlierFile(const CaptureRecord& record) {
  const std::string path = JoinPath(request_.out, HiddenFileName(record.index));
  ASSAY_ASSIGN_OR_RETURN(const std::string digest, Sha256File(path));
  if (digest != record.sha256) {
    return DataLossError("DIGEST_MISMATCH", path + ": SHA-256 is " + digest +
                                                ", the capture manifest states " + record.sha256 +
                                                "; delete the folder and capture anew");
  }
  return absl::OkStatus();
}

// Continues what an earlier run left in the folder, or makes sure that nothing is there.
absl::Status Capture::AdoptEarlier() {
  const std::string path = JoinPath(request_.out, kCaptureManifestName);
  if (!FileExists(path)) {
    ASSAY_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(request_.out));
    for (const std::string& name : names) {
      if (name == kWorkFolderName) continue;
      return PreconditionError("CAPTURE_OUT_OCCUPIED",
                               JoinPath(request_.out, name) +
                                   " is in the way: without capture-manifest.json the folder is no "
                                   "capture to continue; choose an empty --out");
    }
    return absl::OkStatus();
  }
  ASSAY_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path, kCaptureManifestBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const CaptureManifest earlier, ParseCaptureManifest(json, path));
  const Json fresh = ManifestNow(false);
  if (!json.contains("capture_contract_sha256") ||
      json.at("capture_contract_sha256") != fresh.at("capture_contract_sha256")) {
    return PreconditionError("CAPTURE_OUT_OCCUPIED",
                             path +
                                 " is of another capture (its model, suite, filter or kernels "
                                 "differ); choose another --out or delete the folder");
  }
  std::set<int64_t> wanted;
  for (const size_t position : selected_) wanted.insert(suite_.contexts[position].index);
  for (const CaptureRecord& record : earlier.records) {
    if (wanted.count(record.index) == 0) {
      return InvalidError("CAPTURE_INVALID",
                          path + ": context " + std::to_string(record.index) +
                              " is recorded but not selected; delete the folder");
    }
    ASSAY_RETURN_IF_ERROR(CheckEarlierFile(record));
    records_[record.index] = record;
  }
  result_.kept = records_.size();
  return absl::OkStatus();
}

// Moves a unit's files from its folder into the capture and records them.
absl::Status Capture::Publish(const std::string& folder, const Json& files,
                              const std::vector<size_t>& asked) {
  std::map<int64_t, CaptureRecord> made;
  for (const Json& file : files) {
    const JsonFields fields(file, "capture result");
    CaptureRecord record;
    ASSAY_ASSIGN_OR_RETURN(record.index, fields.Int("index", 0, kIndexMax));
    ASSAY_ASSIGN_OR_RETURN(record.sha256, fields.Sha256("sha256"));
    ASSAY_ASSIGN_OR_RETURN(const int64_t rows, fields.Int("rows", 1, kIndexMax));
    ASSAY_ASSIGN_OR_RETURN(const int64_t width, fields.Int("width", 1, kIndexMax));
    record.rows = static_cast<uint64_t>(rows);
    record.width = static_cast<uint64_t>(width);
    made[record.index] = record;
  }
  for (const size_t position : asked) {
    const auto found = made.find(suite_.contexts[position].index);
    if (found == made.end() ||
        found->second.rows + 1 != static_cast<uint64_t>(suite_.context_length)) {
      return InternalError("CAPTURE_FAILED", "the ranks left out context " +
                                                 std::to_string(suite_.contexts[position].index));
    }
    const std::string name = HiddenFileName(found->first);
    const std::string from = JoinPath(folder, name), to = JoinPath(request_.out, name);
    if (rename(from.c_str(), to.c_str()) != 0) return ErrnoError(errno, from + " to " + to);
    records_[found->first] = found->second;
  }
  ASSAY_RETURN_IF_ERROR(SyncDirectory(request_.out));
  return WriteManifest(/*complete=*/false);
}

absl::Status Capture::CaptureMissing(Group& group, const std::string& work) {
  std::vector<size_t> missing;
  for (const size_t position : selected_) {
    if (records_.count(suite_.contexts[position].index) == 0) missing.push_back(position);
  }
  const uint64_t total = selected_.size();
  const size_t step = std::max<size_t>(1, request_.unit_contexts);
  for (size_t begin = 0; begin < missing.size(); begin += step) {
    const std::vector<size_t> asked(
        missing.begin() + static_cast<ptrdiff_t>(begin),
        missing.begin() + static_cast<ptrdiff_t>(std::min(begin + step, missing.size())));
    Json contexts = Json::array();
    for (const size_t position : asked) {
      const SuiteContext& context = suite_.contexts[position];
      contexts.push_back({{"index", context.index}, {"tokens", context.tokens}});
    }
    const Json unit = {
        {"kind", "capture"},
        {"model", {{"path", request_.model.path}, {"transform", request_.model.transform}}},
        {"contexts", std::move(contexts)},
        {"taps", Json::array()}};
    const std::string folder = JoinPath(work, "unit");
    const uint64_t before = records_.size();
    ASSAY_ASSIGN_OR_RETURN(const UnitOutcome outcome,
                           group.Run(unit, folder, [&](uint64_t done, uint64_t) {
                             if (hooks_.progress) {
                               hooks_.progress("capture " + info_.model_name, "contexts",
                                               std::min(before + done, total), total);
                             }
                             return true;
                           }));
    result_.attempts += outcome.attempts - 1;
    ASSAY_RETURN_IF_ERROR(Publish(folder, outcome.result.at("files"), asked));
    result_.captured += asked.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<OfflineCaptureResult> Capture::Run(const OfflineRanks& ranks) {
  ASSAY_RETURN_IF_ERROR(CheckCanWriteFolder(request_.out));
  ASSAY_RETURN_IF_ERROR(ReadInputs());
  ASSAY_ASSIGN_OR_RETURN(const std::unique_ptr<WorkFolder> work, WorkFolder::Lock(request_.out));
  ASSAY_ASSIGN_OR_RETURN(const std::unique_ptr<Group> group,
                         StartOfflineGroup(ranks, /*capture=*/true, work->path(), hooks_));
  ASSAY_RETURN_IF_ERROR(Describe(*group, work->path()));
  ASSAY_RETURN_IF_ERROR(AdoptEarlier());
  if (result_.kept > 0 && hooks_.note) {
    hooks_.note(request_.out + ": keeping " + std::to_string(result_.kept) + " of " +
                std::to_string(selected_.size()) + " contexts captured earlier");
  }
  if (hooks_.progress) {
    hooks_.progress("capture " + info_.model_name, "contexts", records_.size(), selected_.size());
  }
  if (records_.size() < selected_.size()) {
    ASSAY_RETURN_IF_ERROR(WriteManifest(/*complete=*/false));
    ASSAY_RETURN_IF_ERROR(CaptureMissing(*group, work->path()));
  }
  ASSAY_RETURN_IF_ERROR(WriteManifest(/*complete=*/true));
  ASSAY_ASSIGN_OR_RETURN(const CaptureManifest written,
                         ParseCaptureManifest(result_.manifest, "capture manifest"));
  result_.content_sha256 = written.ContentSha256();
  return std::move(result_);
}

}  // namespace

absl::StatusOr<OfflineCaptureResult> OfflineCapture(const OfflineCaptureRequest& request,
                                                    const OfflineRanks& ranks,
                                                    const OfflineHooks& hooks) {
  return Capture(request, hooks).Run(ranks);
}

}  // namespace assay
