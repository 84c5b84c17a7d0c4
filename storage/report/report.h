// assay-report/1: the full result of one candidate against one reference. docs/report.md documents
// every field.
//
// A report is a pure function of ReportInputs, and those hold nothing about when, where, by whom,
// in how many pieces or under which label it was computed.

#ifndef ASSAY_STORAGE_REPORT_REPORT_H_
#define ASSAY_STORAGE_REPORT_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "storage/report/positions.h"

namespace assay {

inline constexpr std::string_view kReportSchema = "assay-report/1";
inline constexpr std::string_view kHeadOwn = "own";        // every operand through its own head
inline constexpr std::string_view kHeadShared = "shared";  // reference head for both
inline constexpr uint64_t kReportBytesMax = uint64_t{1} << 28;
// Scored positions of one report; keeps every count exact in JSON and every array in memory.
inline constexpr uint64_t kReportPositionsMax = uint64_t{1} << 31;

// One scored context, in suite order.
struct ReportContext {
  int64_t index = 0;
  std::string stratum, source_cluster, partition;
  uint64_t positions = 0;  // scored positions, > 0
};

struct SuiteInfo {
  std::string schema;              // the manifest's
  std::string suite_token_sha256;  // digest over the token digests
  std::string manifest_sha256;     // digest of the manifest file
  std::string filter = "all";      // which contexts were asked for
  uint64_t suite_contexts = 0;     // contexts in the whole suite
  int64_t context_length = 0;      // tokens per context
  int64_t score_from = 0;          // positions at the start of every context that were not scored
  int64_t limit = 0;               // contexts asked for when fewer than the filter's; 0 = all of it
  int64_t vocab_size = 0;          // as the suite's manifest states it; 0 = not stated
};

// Bits per weight count everything stored for those weights (scales, offsets). Absent = unknown.
struct ModelSizes {
  std::optional<uint64_t> file_bytes;
  std::optional<uint64_t> body_weights, head_weights, embedding_weights;
  std::optional<double> body_bits_per_weight, head_bits_per_weight, embedding_bits_per_weight;
  // True when the numbers are those a transform would give, not those of a file on disk.
  bool what_if = false;
};

// A head as it was used.
struct HeadIdentity {
  uint64_t vocab = 0, hidden = 0;
  std::string rounded_sha256;     // SHA-256 of the bf16 [vocab, hidden] bytes that were multiplied
  std::string original_sha256;    // content digest before rounding; "" when it was not kept
  std::string original_dtype;     // "BF16", "F16", "Q8_0", ...
  std::string rounding = "none";  // "none" or "bf16-rne" (to nearest, ties to even)
  bool tied = false;              // the embedding is the head
  // logit = scale * product + bias, where the head has them. bias_sha256: of the [vocab] values as
  // little-endian F32; "" = no bias.
  std::optional<double> logit_scale;
  std::string bias_sha256;
};

// Where hidden states (or logits) of one operand came from.
struct CaptureInfo {
  std::string content_sha256;  // CaptureManifest::ContentSha256()
  std::string schema;          // manifest schema
  std::string cut_point;       // "after_final_rmsnorm_before_lm_head"
  bool legacy = false;         // an old manifest form with weaker checks
  Json engine;  // CaptureEngine::Identity() or an imported manifest's runtime; object or null
  Json stack;   // stack fingerprint; object or null
};

struct OperandInfo {
  // ModelManifest::ToJson() ({"files":[{"path","size","sha256"}],"transform"}) and its Identity();
  // null and "" for a capture whose model is known only by its own manifest.
  Json model;
  std::string model_identity;
  // candidate_identity of an imported capture manifest; paths in it are dropped. null when unused.
  Json declared_identity;
  std::string architecture, family;  // "" when unknown
  CaptureInfo capture;
  ModelSizes sizes;
};

struct NumericInfo {
  std::string policy;                     // "exact", ...
  std::string backend;                    // "cpu-bf16", "cpu-f32", "cuda-bf16"
  Json kernel_identity;                   // of the replay: ISA, library, self-test digest; object
  std::string operand_dtype = "bf16";     // dtype in which hidden states and head are multiplied
  std::string operand_rounding = "none";  // of hidden states: "none" (stored bf16) or "bf16-rne"
  std::optional<int64_t> valid_vocab;     // columns used when not all
  std::optional<double> softcap;
  bool allow_infinite = false;
  std::optional<int64_t> vocab_chunk;  // of policy torch-bf16; KL and JSD can be negative then
};

// One head mode of the comparison.
struct HeadResult {
  HeadIdentity reference_head, candidate_head;
  PositionArrays arrays;
};

// Repeat captures of sentinel contexts of one operand in fresh processes.
struct RepeatedCapture {
  std::string operand;  // "reference" or "candidate"
  struct Context {
    int64_t index = 0;
    std::string first_sha256, repeat_sha256;  // hidden-file digests
  };
  std::vector<Context> contexts;
  // kl_ref_cand of first against repeat at every position of those contexts whose digests differ,
  // in order; contexts with equal digests contribute exact zeros without being replayed.
  std::vector<double> kl_of_differing;
  uint64_t positions_per_context = 0;
};

struct Disclosure {
  std::string code;  // UPPER_SNAKE
  std::string text;  // one sentence
};

struct ReportInputs {
  SuiteInfo suite;
  std::vector<ReportContext> contexts;
  OperandInfo reference, candidate;
  NumericInfo numeric;
  std::map<std::string, HeadResult, std::less<>> heads;  // keys kHeadOwn, kHeadShared; at least one
  std::vector<RepeatedCapture> repeats;                  // may be empty: "not measured" is reported
  // Further disclosures; BuildReport adds those that it can see itself (engines, kernels or cut
  // points that differ, legacy captures, what-if weights, infinite positions, rounded operands).
  std::vector<Disclosure> disclosures;
};

// The report. REPORT_INPUTS_INVALID or POSITIONS_INVALID names the field; INFINITE_POSITION when an
// array holds an infinite value and numeric.allow_infinite is false.
absl::StatusOr<Json> BuildReport(const ReportInputs& inputs);

// The bytes of report.json (RFC 8785); their SHA-256 is the report's identity.
absl::StatusOr<std::string> ReportBytes(const Json& report);

// Parses report.json: REPORT_NOT_CANONICAL when the bytes are not exactly what ReportBytes writes,
// REPORT_INVALID when a field that this library relies on is missing or of another type.
absl::StatusOr<Json> ParseReport(std::string_view bytes, std::string_view where);

// Recomputes everything under heads.HEAD of `report` (statistics, rows, array digests) from
// `arrays` and the report's own context rows. REPORT_MISMATCH names the first field that differs
// and both values.
absl::Status RecheckHead(const Json& report, std::string_view head, const PositionArrays& arrays,
                         std::string_view where);

// Recomputes what joins the heads (head_difference, smallest_resolvable_difference). As
// RecheckHead.
absl::Status RecheckAcrossHeads(const Json& report, std::string_view where);

}  // namespace assay

#endif  // ASSAY_STORAGE_REPORT_REPORT_H_
