// What a report says of an operand that is known by its capture manifest.

#ifndef ASSAY_STORAGE_REPORT_OPERAND_INFO_H_
#define ASSAY_STORAGE_REPORT_OPERAND_INFO_H_

#include <string_view>
#include <vector>

#include "storage/base/json.h"
#include "storage/format/capture.h"
#include "storage/report/report.h"

namespace assay {

// Sizes in a ModelFacts document; what is not there stays unknown.
ModelSizes SizesOfFacts(const Json& facts);

// From the manifest, and for captures made by assay capture from the model manifest and facts kept
// there (candidate_identity.assay_model).
OperandInfo DescribeCapture(const CaptureManifest& manifest);

// What facts say that a reader must know of `operand` ("reference", "candidate"): a checkpoint made
// to be served with quantized activations (facts "activations") was computed without them.
std::vector<Disclosure> DisclosuresOfFacts(const Json& facts, std::string_view operand);
// The same of a capture that assay capture has made; none for others.
std::vector<Disclosure> DisclosuresOfCapture(const CaptureManifest& manifest,
                                             std::string_view operand);

// The members of the manifest that DescribeCapture reads and that hold no path of a machine:
// {"schema","complete","candidate_identity","engine_identity","capture_contract"}, those that are
// there.
Json PortableManifest(const CaptureManifest& manifest);

// Reads PortableManifest back; the caller fills suite_token_sha256, cut_point and records.
// CAPTURE_INVALID when it is no object.
absl::StatusOr<CaptureManifest> FromPortableManifest(const Json& json);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_OPERAND_INFO_H_
