#include "worker/capture/native_engine.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/model_files.h"
#include "worker/capture/decoder.h"
#include "worker/capture/matmul.h"
#include "worker/capture/pieces.h"
#include "worker/capture/request.h"
#include "worker/capture/self_test.h"
#include "worker/capture/taps.h"

namespace assay::capture {
namespace {

// Bumped whenever a change of this code can change bits of a capture.
constexpr char kEngineVersion[] = "1";

constexpr uint16_t kBf16Exponent = 0x7f80;

// What a rank tells the others between batches.
enum Verdict : uint8_t { kFine = 0, kFailed = 1, kStop = 2 };

// Which files the path names now: a model that is replaced under its old path is another model.
absl::StatusOr<std::string> StampOf(const std::string& model_path) {
  ASSAY_ASSIGN_OR_RETURN(const ModelFiles files, ResolveModelFiles(model_path));
  std::string stamp;
  for (const std::vector<std::string>* names : {&files.weights, &files.others}) {
    for (const std::string& name : *names) {
      struct stat info {};
      const std::string path = JoinPath(files.root, name);
      if (stat(path.c_str(), &info) != 0) return ErrnoError(errno, path);
      for (const int64_t part : {int64_t(info.st_dev), int64_t(info.st_ino), int64_t(info.st_size),
                                 int64_t(info.st_mtim.tv_sec), int64_t(info.st_mtim.tv_nsec)}) {
        stamp += std::to_string(part) + " ";
      }
    }
  }
  return stamp;
}

}  // namespace

// Every rank learns of a failure or a cancellation at the same point, so that none waits for a peer
// that has left.
absl::Status Agree(Collective& collective, const absl::Status& own) {
  if (collective.size() == 1) return own;
  const uint8_t verdict =
      own.ok() ? kFine : (own.code() == absl::StatusCode::kCancelled ? kStop : kFailed);
  std::vector<uint8_t> all(size_t(collective.size()));
  const absl::Status exchanged = collective.AllGather(std::span(&verdict, 1), all);
  ASSAY_RETURN_IF_ERROR(own);
  ASSAY_RETURN_IF_ERROR(exchanged);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == kFailed) {
      return Error(absl::StatusCode::kAborted, "GROUP_RANK_FAILED",
                   "rank " + std::to_string(rank) + " of this group failed; see its own error");
    }
  }
  if (std::find(all.begin(), all.end(), kStop) != all.end()) {
    return Error(absl::StatusCode::kCancelled, "CANCELLED", "the capture was cancelled");
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(std::span<const uint16_t> rows, uint64_t width, int64_t context) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if ((rows[i] & kBf16Exponent) != kBf16Exponent) continue;
    return Error(absl::StatusCode::kInvalidArgument, "NON_FINITE_HIDDEN",
                 "context " + std::to_string(context) + " row " + std::to_string(i / width) +
                     ": the final hidden state is not finite in bf16 (column " +
                     std::to_string(i % width) + "); the weights overflow float32 arithmetic");
  }
  return absl::OkStatus();
}

Json NativeEngine::Identity() {
  try {
    const absl::Status tested = SelfTest();
    Json identity = {{"engine", "assay-native"},
                     {"engine_version", kEngineVersion},
                     {"libtorch", LibtorchVersion()},
                     {"onednn", OneDnnVersion()},
                     {"isa", OneDnnIsa()}};
    if (tested.ok()) {
      identity["self_test"] = self_test_;
    } else {
      identity["error"] = MessageOf(tested);
    }
    return identity;
  } catch (const std::exception& e) {
    return {{"error", e.what()}};
  }
}

absl::Status NativeEngine::SelfTest() {
  if (!self_test_.empty()) return absl::OkStatus();
  ASSAY_ASSIGN_OR_RETURN(self_test_, SelfTestDigest());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CaptureOutput>> NativeEngine::Capture(
    const CaptureRequest& request, Collective& collective,
    const std::function<bool(uint64_t, uint64_t)>& progress, CaptureCounters* counters) {
  try {
    return RunRequest(request, collective, progress, counters);
  } catch (const std::exception& e) {
    return InternalError("CAPTURE_FAILED", std::string("capture: ") + e.what());
  }
}

absl::Status NativeEngine::EnsureModel(const CaptureRequest& request, int rank, int size) {
  if (size < 1 || size > kPieces) {
    return InvalidError("CAPTURE_LIMIT", "a group of " + std::to_string(size) +
                                             " ranks; captures take 1 to " +
                                             std::to_string(kPieces));
  }
  ASSAY_ASSIGN_OR_RETURN(std::string stamp, StampOf(request.model_path));
  ModelKey key{request.model_path, std::move(stamp), request.transform, rank, size};
  if (model_ != nullptr && key == model_key_) return absl::OkStatus();
  model_.reset();  // before loading, so that two models never share the memory
  ASSAY_ASSIGN_OR_RETURN(model_, Decoder::Load(request.model_path, request.transform, rank, size));
  model_key_ = std::move(key);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CaptureOutput>> NativeEngine::RunRequest(
    const CaptureRequest& request, Collective& collective,
    const std::function<bool(uint64_t, uint64_t)>& progress, CaptureCounters* counters) {
  ASSAY_RETURN_IF_ERROR(CheckRequest(request));
  SetComputeThreads(request.threads);
  absl::Status ready = SelfTest();
  if (ready.ok()) ready = EnsureModel(request, collective.rank(), collective.size());
  ASSAY_RETURN_IF_ERROR(Agree(collective, ready));
  ASSAY_RETURN_IF_ERROR(CheckTokens(request, model_->config().vocab));
  ASSAY_ASSIGN_OR_RETURN(const std::set<TapPoint> taps,
                         ParseTaps(request, model_->config().layers));
  const uint64_t before = model_->multiply_adds();
  std::vector<CaptureOutput> outputs(request.contexts.size());
  uint64_t done = 0;
  absl::Status step;  // this rank's own state, shared before each batch and at the end
  for (const std::vector<size_t>& batch : CutBatches(request.contexts, batch_tokens_)) {
    if (step.ok() && progress && !progress(done, request.contexts.size())) {
      step = Error(absl::StatusCode::kCancelled, "CANCELLED", "the capture was cancelled");
    }
    ASSAY_RETURN_IF_ERROR(Agree(collective, step));
    step = RunBatch(request, batch, collective, taps, outputs);
    // A failed exchange leaves nothing to agree over.
    if (ReasonOf(step) == "COLLECTIVE_FAILED") return step;
    done += batch.size();
  }
  ASSAY_RETURN_IF_ERROR(Agree(collective, step));
  if (progress) progress(done, request.contexts.size());
  if (counters != nullptr) {
    counters->multiply_adds = model_->multiply_adds() - before;
    counters->weight_bytes = model_->weight_bytes();
  }
  return outputs;
}

absl::Status NativeEngine::RunBatch(const CaptureRequest& request, const std::vector<size_t>& batch,
                                    Collective& collective, const std::set<TapPoint>& taps,
                                    std::vector<CaptureOutput>& outputs) {
  std::vector<const CaptureContext*> contexts;
  for (size_t i : batch) contexts.push_back(&request.contexts[i]);
  const size_t tokens = contexts[0]->tokens.size();
  const size_t width = size_t(model_->config().hidden);
  // Errors of writing wait until the batch's exchanges are over: the other ranks are in them.
  absl::Status written;
  const auto sink = [&](const TapPoint& point, std::span<const float> rows) {
    for (size_t c = 0; c < contexts.size() && written.ok(); ++c) {
      const auto part = rows.subspan(c * tokens * width, tokens * width);
      written = WriteFile(JoinPath(request.out_dir, TapFileName(point, contexts[c]->index)),
                          BuildTapFile(point, contexts[c]->index, part, tokens, width));
    }
    return absl::OkStatus();
  };
  std::vector<uint16_t> hidden;
  ASSAY_RETURN_IF_ERROR(model_->Run(contexts, collective, taps, sink, &hidden));
  ASSAY_RETURN_IF_ERROR(written);
  for (size_t c = 0; c < contexts.size(); ++c) {
    const auto rows =
        std::span<const uint16_t>(hidden).subspan(c * tokens * width, (tokens - 1) * width);
    ASSAY_RETURN_IF_ERROR(CheckFinite(rows, width, contexts[c]->index));
    CaptureOutput& output = outputs[batch[c]];
    output.index = contexts[c]->index;
    output.rows = tokens - 1;
    output.width = width;
    if (collective.rank() != 0) continue;
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, BuildHiddenFile(rows, tokens - 1, width));
    output.file = JoinPath(request.out_dir, HiddenFileName(output.index));
    output.sha256 = Sha256Hex(bytes);
    output.bytes = bytes.size();
    ASSAY_RETURN_IF_ERROR(WriteFile(output.file, bytes));
  }
  return absl::OkStatus();
}

}  // namespace assay::capture
