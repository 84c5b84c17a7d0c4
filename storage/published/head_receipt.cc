#include "storage/published/head_receipt.h"

#include <cmath>
#include <cstring>

#include "storage/base/atomic_file.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/dataset/canonical.h"
#include "storage/dataset/finding.h"
#include "storage/format/head.h"

namespace assay {
namespace {

constexpr std::string_view kIdentitySchema = "malaiwah.fidelity-head-identity.v1";

const Json& At(const Json& document, const char* key) { return DatasetMember(document, {key}); }

std::string Sha256OfBytes(std::span<const uint8_t> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

bool AllFinite(const TensorView& tensor) {
  for (uint64_t i = 0, n = tensor.elements(); i < n; ++i) {
    if (!std::isfinite(ElementOf(tensor, i))) return false;
  }
  return true;
}

Json ShapeJson(const HeadDigests& digests) { return {digests.vocab, digests.hidden}; }

// Whether any string in the document is `wanted`.
bool Holds(const Json& json, const std::string& wanted) {
  if (json.is_string()) return json.get_ref<const std::string&>() == wanted;
  if (!json.is_structured()) return false;
  for (const Json& value : json) {
    if (Holds(value, wanted)) return true;
  }
  return false;
}

void CheckOwn(const Json& receipt, const HeadDigests& digests, PublishedExamination* out) {
  AddEqual(out, "receipt: file", At(receipt, "file_sha256"), digests.file_sha256);
  AddEqual(out, "receipt: payload", At(receipt, "payload_sha256"), digests.payload_sha256);
  AddEqual(out, "receipt: content", At(receipt, "tensor_content_sha256"),
           digests.tensor_content_sha256);
  AddEqual(out, "receipt: bf16", At(receipt, "bf16_sha256"), digests.bf16_sha256);
  AddEqual(out, "receipt: tensor", At(receipt, "tensor_key"), digests.tensor);
  AddEqual(out, "receipt: shape", At(receipt, "shape"), ShapeJson(digests));
  AddEqual(out, "receipt: dtype", At(receipt, "dtype"), digests.dtype);
  const Json& source = At(receipt, "source");
  AddNotChecked(out, "receipt: source",
                "names " + DatasetText(At(source, "file")) + ", SHA-256 " +
                    DatasetText(At(source, "sha256")) + "; give --model to cut it out again");
}

void CheckIdentity(const Json& receipt, const HeadDigests& digests, PublishedExamination* out) {
  AddEqual(out, "receipt: seal", At(receipt, "receipt_sha256"),
           DatasetSeal(receipt, "receipt_sha256"));
  AddEqual(out, "receipt: content", At(receipt, "tensor_content_sha256"),
           digests.tensor_content_sha256);
  AddEqual(out, "receipt: raw alias", At(receipt, "raw_tensor_sha256"),
           At(receipt, "tensor_content_sha256"));
  AddEqual(out, "receipt: file", At(receipt, "file_sha256"), digests.file_sha256);
  AddEqual(out, "receipt: tensor", At(receipt, "tensor_key"), digests.tensor);
  AddEqual(out, "receipt: shape", At(receipt, "shape"), ShapeJson(digests));
  AddEqual(out, "receipt: dtype", At(receipt, "dtype"), digests.dtype);
}

void CheckReceipt(std::optional<std::string_view> bytes, const HeadDigests& digests,
                  PublishedExamination* out) {
  if (!bytes) return AddNotApplicable(out, "receipt", "none was given, and none lies beside it");
  const auto receipt = ParseJson(*bytes, "receipt");
  if (!receipt.ok()) return AddCheck(out, "receipt", false, MessageOf(receipt.status()));
  const Json& schema = At(*receipt, "schema");
  out->schema = DatasetString(schema).value_or("");
  if (schema == kHeadReceiptSchema) return CheckOwn(*receipt, digests, out);
  if (schema == kIdentitySchema) return CheckIdentity(*receipt, digests, out);
  // Early receipts state only the digest of the file, which is the container's, not the head's.
  AddCheck(out, "receipt: file", Holds(*receipt, digests.file_sha256),
           "a receipt of unknown form; all that is asked is that it names this file's digest");
  AddNotChecked(out, "receipt: content",
                "not stated: another file with the same values would have another digest");
}

}  // namespace

absl::StatusOr<HeadDigests> DigestHead(const std::string& path, std::string_view tensor) {
  ASSAY_ASSIGN_OR_RETURN(const HeadInfo info, InspectHead(path, tensor));
  ASSAY_ASSIGN_OR_RETURN(const auto mapping, MappedFile::Open(path));
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Parse(mapping->bytes(), path));
  ASSAY_ASSIGN_OR_RETURN(const TensorView view, file->Find(info.tensor));
  uint64_t header;
  std::memcpy(&header, mapping->bytes().data(), 8);
  HeadDigests out;
  out.tensor = info.tensor;
  out.dtype = std::string(DTypeName(info.dtype));
  out.vocab = info.vocab;
  out.hidden = info.hidden;
  out.file_bytes = mapping->size();
  out.file_sha256 = info.file_sha256;
  out.bf16_sha256 = info.content_sha256;
  out.tensor_content_sha256 =
      info.dtype == DType::kBF16 ? info.content_sha256 : Sha256OfBytes(view.bytes);
  const auto payload = mapping->bytes().subspan(8 + header);
  out.payload_sha256 =
      payload.size() == view.bytes.size() ? out.tensor_content_sha256 : Sha256OfBytes(payload);
  out.finite = AllFinite(view);
  return out;
}

absl::Status WriteHeadFile(const std::string& from, const std::string& from_tensor,
                           const std::string& to, const std::string& name) {
  ASSAY_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(from));
  ASSAY_ASSIGN_OR_RETURN(const TensorView view, FindHeadTensor(*file, from_tensor));
  ASSAY_ASSIGN_OR_RETURN(const auto out, AtomicFile::Create(to));
  ASSAY_RETURN_IF_ERROR(out->Append(SafetensorsHeader({{name, view.dtype, view.shape}})));
  ASSAY_RETURN_IF_ERROR(out->Append(view.bytes));
  return out->Commit();
}

Json HeadReceiptJson(const std::string& file, const HeadDigests& digests,
                     const HeadSource& source) {
  Json out = Json::object();
  out["schema"] = kHeadReceiptSchema;
  out["file"] = file;
  out["file_bytes"] = digests.file_bytes;
  out["file_sha256"] = digests.file_sha256;
  out["payload_sha256"] = digests.payload_sha256;
  out["tensor_key"] = digests.tensor;
  out["dtype"] = digests.dtype;
  out["shape"] = ShapeJson(digests);
  out["tensor_content_sha256"] = digests.tensor_content_sha256;
  out["raw_tensor_sha256"] = digests.tensor_content_sha256;
  out["bf16_sha256"] = digests.bf16_sha256;
  out["source"] = {{"file", source.file},
                   {"sha256", source.sha256},
                   {"tensor", source.tensor.empty() ? Json() : Json(source.tensor)},
                   {"stored", source.stored},
                   {"tied", source.tied},
                   {"bytes_as_stored", source.stored == digests.dtype}};
  return out;
}

PublishedExamination ExamineHead(const std::string& path, std::string_view tensor,
                                 std::optional<std::string_view> receipt,
                                 const HeadDigests* other) {
  PublishedExamination out;
  out.what = "language-model head";
  const auto digests = DigestHead(path, tensor);
  if (!digests.ok()) {
    AddCheck(&out, "file", false, MessageOf(digests.status()));
    return out;
  }
  AddCheck(&out, "file", true,
           "tensor " + digests->tensor + ", " + digests->dtype + " [" +
               std::to_string(digests->vocab) + ", " + std::to_string(digests->hidden) +
               "], content " + digests->tensor_content_sha256);
  AddCheck(&out, "finite", digests->finite,
           digests->finite ? "no NaN and no infinity" : "holds NaN or infinity");
  CheckReceipt(receipt, *digests, &out);
  if (other == nullptr) {
    AddNotChecked(&out, "same head", "give the other one with --against or --model");
  } else if (other->tensor_content_sha256 == digests->tensor_content_sha256) {
    AddCheck(&out, "same head", true,
             other->dtype == digests->dtype ? "the same bytes" : "the same bytes in another type");
  } else {
    const bool rounded = other->bf16_sha256 == digests->bf16_sha256;
    AddCheck(&out, "same head", rounded,
             rounded ? "other types, the same values as bf16, which is what they are used as"
                     : "other values: content " + other->tensor_content_sha256);
  }
  return out;
}

}  // namespace assay
