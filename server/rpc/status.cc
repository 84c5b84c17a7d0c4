#include "server/rpc/status.h"

#include <algorithm>

#include "storage/base/status.h"
#include "storage/base/utf8.h"

namespace assay::rpc {
namespace {
constexpr size_t kMessageBytesMax = 4096;

// Metadata values are printable ASCII.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text.substr(0, 256);
}
}  // namespace

grpc::Status ToGrpc(const absl::Status& status, grpc::ServerContextBase* context,
                    const std::string& resource) {
  if (status.ok()) return grpc::Status::OK;
  context->AddTrailingMetadata(kReasonKey, Printable(ReasonOf(status)));
  if (!resource.empty()) context->AddTrailingMetadata(kResourceKey, Printable(resource));
  return {static_cast<grpc::StatusCode>(status.code()),
          CutUtf8(ScrubUtf8(MessageOf(status)), kMessageBytesMax)};
}

}  // namespace assay::rpc
