#include "server/maintain/references.h"

#include <string_view>
#include <unordered_set>

#include "storage/base/macros.h"
#include "storage/db/row.h"

namespace assay {
namespace {

constexpr size_t kDigestChars = 64;
constexpr uint64_t kDocumentBytesMax = uint64_t{1} << 30;

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// Calls f for every 64 hex characters in a row: what follows a digest may look like more of it.
template <class F>
void ForEachDigest(std::string_view text, F f) {
  size_t run = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    run = IsHex(text[i]) ? run + 1 : 0;
    if (run >= kDigestChars) f(std::string(text.substr(i + 1 - kDigestChars, kDigestChars)));
  }
}

}  // namespace

absl::StatusOr<References> FindReferences(const Catalogue& catalogue, const BlobStore& blobs) {
  References out;
  std::unordered_set<std::string> there;
  ASSAY_RETURN_IF_ERROR(blobs.List([&](const BlobInfo& info) {
    out.blobs.push_back(info);
    there.insert(info.sha256);
    return absl::OkStatus();
  }));
  const auto name = [&](std::string_view text) {
    ForEachDigest(text, [&](const std::string& digest) {
      if (there.count(digest) != 0) out.named.insert(digest);
    });
  };
  ASSAY_RETURN_IF_ERROR(catalogue.ForEachValue(name));
  std::vector<std::string> documents;
  std::vector<std::string> suites;
  ASSAY_RETURN_IF_ERROR(catalogue.LoadAll([&](const Row& row) {
    if (const auto* suite = std::get_if<SuiteRow>(&row)) suites.push_back(suite->id);
    if (const auto* receipt = std::get_if<ReceiptRow>(&row))
      documents.push_back(receipt->receipt_sha256);
    if (const auto* report = std::get_if<ReportRow>(&row)) {
      documents.push_back(report->id);
      documents.push_back(report->execution_sha256);
    }
  }));
  for (const std::string& sha256 : suites) {
    const auto text = GetBlob(blobs, sha256, kDocumentBytesMax);
    if (!text.ok()) {
      out.unreadable.push_back(sha256);
      continue;
    }
    out.named.insert(sha256);
    name(*text);
  }
  for (const std::string& sha256 : documents) {
    if (const auto text = GetBlob(blobs, sha256, kDocumentBytesMax); text.ok()) name(*text);
  }
  return out;
}

}  // namespace assay
