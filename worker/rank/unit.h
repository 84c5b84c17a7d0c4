// Units: what a rank can be asked to compute. A unit is a JSON document; every path in it is a
// local file that the parent has verified.
//
// {"kind":"prepare","model":{"path","transform"}}
//     -> {"facts":{..} (ModelFacts),"head":{"file","sha256","bytes","content_sha256","tensor",
//         "vocab","hidden","storage_format"}}
//     Opens a checkpoint and writes its head, rounded once to bf16, as out_dir/head.safetensors.
//
// {"kind":"capture","model":{"path","transform"},"contexts":[{"index":0,"tokens":[..]}],"taps":[]}
//     -> {"files":[{"index","file","sha256","bytes","rows","width"}],"identity":{..}}
//
// {"kind":"replay","policy":"exact","backend":"auto","row_tile":64,"valid_vocab":null,
//  "softcap":null,"allow_infinite":false,"score_from":0,"vocab_chunk":null,
//  "heads":[{"id":"h0","file":"/p","tensor":"lm_head.weight","content_sha256":".."|absent,
//            "logit_scale":0.0625|null|absent,"bias":{"file":"/p","tensor":"lm_head.bias"}|null}],
//  "operands":[{"id":"ref","role":"reference","hidden":["/path per context"]}
//              | {"id":"c","role":"candidate","logits":["/path#tensor per context"]}],
//  "contexts":[{"index":0,"observed":[ids, one per row; -1 = none]}],
//  "comparisons":[{"id":"c/own","ref":{"operand":"ref","head":"h0"},
//                  "cand":{"operand":"c","head":"h1"}}]}
//     -> {"file":"positions.safetensors","sha256","bytes","backend":"cpu-bf16",
//         "maxima":{"hidden":{"ref":1.5},"head":{"h0":0.5}},"rounded_operands":["ref"]}
//     The file has one tensor "<comparison>|<index %06d>|<output>", F64 or I32 [rows], for every
//     comparison, context and output (in that nesting, outputs in the order of kReplayF64Names,
//     kReplayI32Names). Only row_tile, softcap, valid_vocab, backend, allow_infinite,
//     content_sha256 and logit_scale may be absent, and bias unless the head's file holds one.
//     So may vocab_chunk (ReplayPlan) and score_from = N, which leaves out the first N rows of
//     every operand: "observed" and the results begin with row N.
//
// File names in results are relative to out_dir. Only rank 0 writes; the results of other ranks
// have the same form without digests.

#ifndef ASSAY_WORKER_RANK_UNIT_H_
#define ASSAY_WORKER_RANK_UNIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "storage/base/json.h"
#include "worker/capture/engine.h"
#include "worker/collective/collective.h"
#include "worker/replay/replay.h"

namespace assay {

inline constexpr uint64_t kUnitBytesMax = uint64_t{256} << 20;
inline constexpr size_t kUnitContextsMax = 1 << 16;
inline constexpr size_t kUnitOperandsMax = 256;
inline constexpr size_t kUnitHeadsMax = 256;
inline constexpr size_t kUnitComparisonsMax = 1024;
inline constexpr size_t kUnitTapsMax = 4096;
inline constexpr char kPositionsFile[] = "positions.safetensors";
inline constexpr char kHeadFile[] = "head.safetensors";

// What a unit may use. Nothing is owned.
struct UnitContext {
  Collective* collective = nullptr;
  ReplayEngine* replay = nullptr;
  CaptureEngine* capture = nullptr;  // null: this rank has no capture engine
  std::string capture_missing;       // why there is none
  int threads = 1;
  std::string out_dir;
  std::function<bool(uint64_t done, uint64_t total)> progress;  // false = cancelled
};

struct UnitOutput {
  Json result;
  uint64_t multiply_adds = 0;
  uint64_t weight_bytes = 0;
};

// Executes a unit. UNIT_INVALID (names the member), UNIT_KIND_UNKNOWN, CAPTURE_ENGINE_MISSING, and
// the errors of the libraries; a refused row carries DetailsOf.
absl::StatusOr<UnitOutput> ExecuteUnit(const Json& unit, const UnitContext& context);

// The three kinds; called by ExecuteUnit.
absl::StatusOr<UnitOutput> ExecutePrepare(const Json& unit, const UnitContext& context);
absl::StatusOr<UnitOutput> ExecuteCapture(const Json& unit, const UnitContext& context);
absl::StatusOr<UnitOutput> ExecuteReplay(const Json& unit, const UnitContext& context);

}  // namespace assay

#endif  // ASSAY_WORKER_RANK_UNIT_H_
