// List pages over an ordered map: the token is the last key given, tied to the call it belongs to.

#ifndef ASSAY_SERVER_RPC_PAGE_H_
#define ASSAY_SERVER_RPC_PAGE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/base/status.h"

namespace assay::rpc {

inline constexpr int kPageDefault = 50;
inline constexpr int kPageMax = 1000;

inline constexpr size_t kPageBytesMax = size_t{2} << 20;  // then a page ends early: 4 MiB messages

template <class T>
struct Page {
  std::vector<T> items;
  std::string next;
  size_t from = 0;  // position of the first item
};

// Items of a page. PAGE_INVALID.
inline absl::StatusOr<size_t> PageSize(int page_size) {
  if (page_size < 0) return InvalidError("PAGE_INVALID", "page_size must not be negative");
  return static_cast<size_t>(page_size == 0 ? kPageDefault : std::min(page_size, kPageMax));
}

// The number in a token "CALL:NUMBER"; none for an empty token. PAGE_INVALID.
inline absl::StatusOr<std::optional<uint64_t>> ParseToken(const std::string& token,
                                                          const std::string& call) {
  if (token.empty()) return std::optional<uint64_t>();
  const std::string prefix = call + ":";
  const std::string digits = token.size() > prefix.size() ? token.substr(prefix.size()) : "";
  const bool good = token.compare(0, prefix.size(), prefix) == 0 && !digits.empty() &&
                    digits.size() <= 12 &&
                    digits.find_first_not_of("0123456789") == std::string::npos;
  if (!good) return InvalidError("PAGE_INVALID", "the page token is not one of this call");
  return std::optional<uint64_t>(std::stoull(digits));
}

// One page of `all`, already in order and with stable positions: such lists only grow at their end.
// PAGE_INVALID.
template <class T>
absl::StatusOr<Page<T>> CutPage(std::vector<T> all, int page_size, const std::string& token,
                                const std::string& call) {
  const auto items = PageSize(page_size);
  if (!items.ok()) return items.status();
  const auto position = ParseToken(token, call);
  if (!position.ok()) return position.status();
  const size_t size = *items;
  const size_t from = position->value_or(0);
  Page<T> page;
  page.from = from;
  for (size_t i = from; i < all.size() && i < from + size; ++i)
    page.items.push_back(std::move(all[i]));
  if (from + size < all.size()) page.next = call + ":" + std::to_string(from + size);
  return page;
}

// Adds the page's items to `out` with `add`, which returns the message that it added, and sets the
// next token. Large items make a page of fewer, so that no answer is beyond what a message may be.
template <class T, class Response, class Add>
void FillPage(const Page<T>& page, const std::string& call, Response* out, Add add) {
  size_t bytes = 0;
  for (size_t i = 0; i < page.items.size(); ++i) {
    bytes += add(page.items[i])->ByteSizeLong();
    if (bytes > kPageBytesMax && i + 1 < page.items.size())
      return out->set_next_page_token(call + ":" + std::to_string(page.from + i + 1));
  }
  out->set_next_page_token(page.next);
}

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_PAGE_H_
