#include "worker/agent/unit_files.h"

#include "fmt/format.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr int64_t kBlobBytesMax = int64_t{64} << 30;

class UnitResolver {
 public:
  UnitResolver(const UnitInputs& inputs, const std::function<bool()>& go_on, LocalUnit* local)
      : inputs_(inputs), go_on_(go_on), local_(local) {}

  absl::Status Run(Json unit) {
    const JsonFields fields(unit, "unit");
    ASSAY_RETURN_IF_ERROR(fields.CheckObject());
    ASSAY_ASSIGN_OR_RETURN(const std::string kind, fields.String("kind"));
    if (kind == "prepare" || kind == "capture") {
      ASSAY_RETURN_IF_ERROR(Model(fields, &unit));
      if (fields.Has("fresh_ranks")) {
        ASSAY_ASSIGN_OR_RETURN(local_->fresh_ranks, fields.Bool("fresh_ranks"));
      }
      unit.erase("fresh_ranks");
    } else if (kind == "replay") {
      ASSAY_RETURN_IF_ERROR(Heads(&unit));
      ASSAY_RETURN_IF_ERROR(Operands(&unit));
    } else {
      return InvalidError("UNIT_INVALID",
                          fmt::format("unit kind \"{}\" is not known to this worker; use a worker "
                                      "of the coordinator's version",
                                      kind));
    }
    local_->unit = std::move(unit);
    return absl::OkStatus();
  }

 private:
  // {"identity","manifest"} becomes {"path","transform"}.
  absl::Status Model(const JsonFields& fields, Json* unit) {
    ASSAY_ASSIGN_OR_RETURN(const Json* model, fields.Object("model"));
    const JsonFields model_fields(*model, "unit: model");
    ASSAY_ASSIGN_OR_RETURN(const std::string identity, model_fields.Sha256("identity"));
    ASSAY_ASSIGN_OR_RETURN(const Json* json, model_fields.Object("manifest"));
    ASSAY_ASSIGN_OR_RETURN(const ModelManifest manifest, ParseModelManifest(*json, "unit: model"));
    if (manifest.Identity() != identity) {
      return InvalidError("UNIT_INVALID", fmt::format("unit: model {} has a manifest of {}",
                                                      identity, manifest.Identity()));
    }
    ASSAY_ASSIGN_OR_RETURN(ResolvedModel resolved, inputs_.models->Resolve(manifest, go_on_));
    for (BlobCache::Pin& pin : resolved.pins) local_->pins.push_back(std::move(pin));
    Json local;
    local["path"] = resolved.path;
    local["transform"] = manifest.transform;
    (*unit)["model"] = std::move(local);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Fetch(const Json& blob, std::string where) {
    const JsonFields fields(blob, std::move(where));
    ASSAY_RETURN_IF_ERROR(fields.CheckObject());
    ASSAY_ASSIGN_OR_RETURN(const std::string sha256, fields.Sha256("sha256"));
    ASSAY_ASSIGN_OR_RETURN(const int64_t bytes, fields.Int("bytes", 0, kBlobBytesMax));
    ASSAY_ASSIGN_OR_RETURN(
        BlobCache::Pin pin,
        inputs_.cache->Get(sha256, static_cast<uint64_t>(bytes), [&](const std::string& path) {
          return inputs_.store->Fetch(sha256, path, go_on_);
        }));
    local_->pins.push_back(std::move(pin));
    return local_->pins.back().path();
  }

  absl::Status Heads(Json* unit) {
    ASSAY_RETURN_IF_ERROR(JsonFields(*unit, "unit").Array("heads").status());
    for (Json& head : (*unit)["heads"]) {
      ASSAY_ASSIGN_OR_RETURN(const std::string path, Fetch(head, "unit: head"));
      head.erase("sha256");
      head.erase("bytes");
      head["file"] = path;
      if (!head.contains("bias") || head["bias"].is_null()) continue;
      ASSAY_ASSIGN_OR_RETURN(const std::string bias, Fetch(head["bias"], "unit: head bias"));
      head["bias"].erase("sha256");
      head["bias"].erase("bytes");
      head["bias"]["file"] = bias;
    }
    return absl::OkStatus();
  }

  absl::Status Operands(Json* unit) {
    ASSAY_RETURN_IF_ERROR(JsonFields(*unit, "unit").Array("operands").status());
    for (Json& operand : (*unit)["operands"]) {
      const JsonFields fields(operand, "unit: operand");
      ASSAY_RETURN_IF_ERROR(fields.CheckObject());
      ASSAY_RETURN_IF_ERROR(fields.Array("hidden").status());
      for (Json& hidden : operand["hidden"]) {
        ASSAY_ASSIGN_OR_RETURN(std::string path, Fetch(hidden, "unit: hidden file"));
        hidden = std::move(path);
      }
    }
    return absl::OkStatus();
  }

  const UnitInputs& inputs_;
  const std::function<bool()>& go_on_;
  LocalUnit* const local_;
};

// Takes "file" out of `entry` and lists it; "sha256" and "bytes" stay.
absl::Status ExportFile(const std::string& out_dir, Json* entry, std::vector<OutputFile>* files) {
  const JsonFields fields(*entry, "result");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string name, fields.String("file"));
  ASSAY_ASSIGN_OR_RETURN(const std::string sha256, fields.Sha256("sha256"));
  ASSAY_ASSIGN_OR_RETURN(const int64_t bytes, fields.Int("bytes", 0, kBlobBytesMax));
  OutputFile file;
  file.path = JoinPath(out_dir, BaseName(name));
  file.sha256 = sha256;
  ASSAY_ASSIGN_OR_RETURN(file.size, FileSize(file.path));
  if (file.size != static_cast<uint64_t>(bytes)) {
    return InternalError("RESULT_INVALID", fmt::format("{} has {} bytes, the rank said {}",
                                                       file.path, file.size, bytes));
  }
  files->push_back(std::move(file));
  entry->erase("file");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LocalUnit> ResolveUnit(const std::string& unit_json, const UnitInputs& inputs,
                                      const std::function<bool()>& go_on) {
  ASSAY_ASSIGN_OR_RETURN(Json unit, ParseJson(unit_json, "unit"));
  LocalUnit local;
  ASSAY_RETURN_IF_ERROR(UnitResolver(inputs, go_on, &local).Run(std::move(unit)));
  return local;
}

absl::StatusOr<Json> ExportResult(const std::string& kind, const Json& result,
                                  const std::string& out_dir, std::vector<OutputFile>* files) {
  Json exported = result;
  const JsonFields fields(exported, "result");
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  if (kind == "prepare") {
    ASSAY_RETURN_IF_ERROR(fields.Object("head").status());
    ASSAY_RETURN_IF_ERROR(ExportFile(out_dir, &exported["head"], files));
  } else if (kind == "capture") {
    ASSAY_RETURN_IF_ERROR(fields.Array("files").status());
    for (Json& file : exported["files"]) {
      ASSAY_RETURN_IF_ERROR(ExportFile(out_dir, &file, files));
    }
  } else if (kind == "replay") {
    ASSAY_RETURN_IF_ERROR(ExportFile(out_dir, &exported, files));
  } else {
    return InternalError("RESULT_INVALID", fmt::format("no unit kind \"{}\"", kind));
  }
  return exported;
}

}  // namespace assay
