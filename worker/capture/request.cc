#include "worker/capture/request.h"

#include <algorithm>
#include <map>
#include <string>

#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::capture {
namespace {

absl::Status Limit(const std::string& what, size_t value, size_t most) {
  return InvalidError("CAPTURE_LIMIT", what + " is " + std::to_string(value) +
                                           "; this build takes 1 to " + std::to_string(most));
}

std::string ContextName(const CaptureContext& context) {
  return "context " + std::to_string(context.index);
}

}  // namespace

absl::Status CheckRequest(const CaptureRequest& request) {
  if (request.threads < 1 || request.threads > kCaptureThreadsMax) {
    return InvalidError("CAPTURE_LIMIT", "threads is " + std::to_string(request.threads) +
                                             "; use 1 to " + std::to_string(kCaptureThreadsMax));
  }
  if (request.contexts.empty() || request.contexts.size() > kCaptureContextsMax) {
    return Limit("the number of contexts", request.contexts.size(), kCaptureContextsMax);
  }
  if (request.taps.size() > kCaptureTapsMax) {
    return Limit("the number of taps", request.taps.size(), kCaptureTapsMax);
  }
  std::set<int64_t> indices;
  for (const CaptureContext& context : request.contexts) {
    if (context.index < 0 || !indices.insert(context.index).second) {
      return InvalidError("CONTEXT_INDEX_INVALID",
                          ContextName(context) + ": negative or given twice");
    }
    if (context.tokens.size() < 2) {
      return InvalidError("CONTEXT_TOO_SHORT",
                          ContextName(context) + " has " + std::to_string(context.tokens.size()) +
                              " tokens; two are the least that score a position");
    }
    if (context.tokens.size() > kContextTokensMax) {
      return Limit("the length of " + ContextName(context), context.tokens.size(),
                   kContextTokensMax);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const CaptureRequest& request, int64_t vocab) {
  for (const CaptureContext& context : request.contexts) {
    for (size_t i = 0; i < context.tokens.size(); ++i) {
      if (context.tokens[i] >= 0 && context.tokens[i] < vocab) continue;
      return InvalidError("TOKEN_OUT_OF_RANGE",
                          ContextName(context) + " position " + std::to_string(i) + ": token " +
                              std::to_string(context.tokens[i]) + " is outside the vocabulary of " +
                              std::to_string(vocab) +
                              "; the suite was made with another tokenizer than this model's");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::set<TapPoint>> ParseTaps(const CaptureRequest& request, int64_t layers) {
  std::set<TapPoint> taps;
  for (const std::string& name : request.taps) {
    ASSAY_ASSIGN_OR_RETURN(const TapPoint point, ParseTap(name, layers));
    taps.insert(point);
  }
  return taps;
}

std::vector<std::vector<size_t>> CutBatches(std::span<const CaptureContext> contexts,
                                            size_t tokens) {
  std::map<size_t, std::vector<size_t>> by_length;
  for (size_t i = 0; i < contexts.size(); ++i) by_length[contexts[i].tokens.size()].push_back(i);
  std::vector<std::vector<size_t>> batches;
  for (const auto& [length, members] : by_length) {
    const size_t most = std::max<size_t>(1, tokens / length);
    for (size_t i = 0; i < members.size(); i += most) {
      const size_t end = std::min(members.size(), i + most);
      batches.emplace_back(members.begin() + i, members.begin() + end);
    }
  }
  return batches;
}

}  // namespace assay::capture
