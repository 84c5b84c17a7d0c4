// Token files: the fast reader accepts exactly the lists of integers that the JSON reader does,
// with the same values.

#include <limits>

#include "storage/base/json.h"
#include "storage/format/suite.h"
#include "storage/format/token_list.h"
#include "tests/fuzz/fuzz.h"

namespace assay {
namespace {

// What the file means to a reader of JSON; nothing unless it is a list of token ids.
bool ReadSlowly(std::string_view input, std::vector<int32_t>* out) {
  const auto json = ParseJson(input, "input");
  if (!json.ok() || !json->is_array()) return false;
  for (const Json& id : *json) {
    if (!id.is_number_integer()) return false;
    if (id.is_number_unsigned() &&
        id.get<uint64_t>() > uint64_t{std::numeric_limits<int32_t>::max()})
      return false;
    if (!id.is_number_unsigned() && id.get<int64_t>() < 0) return false;
    out->push_back(id.get<int32_t>());
  }
  return true;
}

}  // namespace

ASSAY_FUZZ_TARGET(tokens) {
  std::vector<int32_t> expected;
  const bool sound = ReadSlowly(input, &expected);
  const auto tokens = ParseTokenList(input, "input");
  fuzz::Require(tokens.ok() == sound, "both readers accept the same files");
  if (!sound) return;
  fuzz::Require(*tokens == expected, "both readers see the same ids");
  const auto again = ParseTokenList(TokenFileBytes(*tokens), "written");
  fuzz::Require(again.ok() && *again == *tokens, "a written list reads back");
}

}  // namespace assay
