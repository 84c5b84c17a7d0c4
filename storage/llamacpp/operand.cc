#include "storage/llamacpp/operand.h"

#include "storage/base/atomic_file.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/suite.h"

namespace assay {
namespace {

constexpr uint64_t kOperandBytesMax = uint64_t{1} << 20;

// Nats below a row's largest logit that are kept; null where nothing is cut off.
Json FloorNats(LlamacppCoding coding) {
  switch (coding) {
    case LlamacppCoding::kFloor16:
      return 16;
    case LlamacppCoding::kFloor24:
      return 24;
    case LlamacppCoding::kV2:
      break;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Json> ImportLlamacppLogits(const std::string& file,
                                          const LlamacppSuiteOptions& options,
                                          const std::string& dir) {
  ASSAY_ASSIGN_OR_RETURN(const auto logits, LlamacppLogits::Open(file));
  ASSAY_RETURN_IF_ERROR(WriteLlamacppSuite(*logits, options, JoinPath(dir, "suite")));
  ASSAY_ASSIGN_OR_RETURN(const Suite suite, ReadSuite(JoinPath(dir, "suite")));
  ASSAY_ASSIGN_OR_RETURN(const auto mapping, MappedFile::Open(file));
  Sha256 hash;
  hash.Update(mapping->bytes());
  ASSAY_ASSIGN_OR_RETURN(const auto copy, AtomicFile::Create(JoinPath(dir, kLogitsOperandData)));
  ASSAY_RETURN_IF_ERROR(copy->Append(mapping->bytes()));
  ASSAY_RETURN_IF_ERROR(copy->Commit());
  Json out = Json::object();
  out["schema"] = kLogitsOperandSchema;
  out["sha256"] = hash.FinishHex();
  out["bytes"] = mapping->size();
  out["coding"] = LlamacppCodingName(logits->coding());
  out["floor_nats"] = FloorNats(logits->coding());
  out["context_length"] = logits->context_length();
  out["vocab_size"] = logits->vocab_size();
  out["chunks"] = logits->chunks();
  out["rows"] = logits->rows();
  out["score_from"] = logits->first_position();
  out["bos"] = options.bos ? Json(*options.bos) : Json();
  out["suite"] = {{"manifest_sha256", suite.manifest_sha256},
                  {"suite_token_sha256", suite.suite_token_sha256}};
  out["not_stated"] = {"model", "BOS rule", "batch size", "text"};
  out["comparable_with"] =
      "logits files over the same text with the same coding; never with full-vocabulary logits or "
      "captures, from which a clipped file differs by more than a quantization costs";
  ASSAY_RETURN_IF_ERROR(
      WriteFileAtomic(JoinPath(dir, kLogitsOperandFile), PythonPrettyJson(out) + "\n"));
  return out;
}

absl::StatusOr<std::string> LlamacppFileOf(const std::string& path) {
  const std::string operand = JoinPath(path, kLogitsOperandFile);
  if (!IsDirectory(path) || !FileExists(operand)) return path;
  ASSAY_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(operand, kOperandBytesMax));
  const JsonFields fields(json, operand);
  ASSAY_RETURN_IF_ERROR(fields.CheckObject());
  ASSAY_ASSIGN_OR_RETURN(const std::string schema, fields.String("schema"));
  if (schema != kLogitsOperandSchema)
    return fields.Invalid("schema", "is not " + std::string(kLogitsOperandSchema));
  ASSAY_ASSIGN_OR_RETURN(const std::string stated, fields.Sha256("sha256"));
  const std::string file = JoinPath(path, kLogitsOperandData);
  ASSAY_ASSIGN_OR_RETURN(const std::string digest, Sha256File(file));
  if (digest == stated) return file;
  return DataLossError("DIGEST_MISMATCH", file + ": has SHA-256 " + digest +
                                              ", operand.json states " + stated +
                                              "; import the file again");
}

}  // namespace assay
