// Rows and chain links as the store holds them. The checksum of a row is put right first, as that
// of a row by a hostile or mistaken writer would be.

#include "server/core/state.h"
#include "storage/db/chain.h"
#include "storage/db/row.h"
#include "tests/fuzz/fuzz.h"

namespace assay {
namespace {

constexpr size_t kHeaderBytes = 12;  // magic, version, kind, two zeros, CRC-32C of the rest

std::string WithChecksum(std::string_view input) {
  std::string bytes(input);
  if (bytes.size() < kHeaderBytes) return bytes;
  const uint32_t crc = Crc32c(std::string_view(bytes).substr(kHeaderBytes));
  for (size_t i = 0; i < 4; ++i) bytes[8 + i] = static_cast<char>((crc >> (8 * i)) & 0xff);
  return bytes;
}

}  // namespace

ASSAY_FUZZ_TARGET(store_row) {
  (void)DecodeRow(input, "input");
  const auto link = DecodeLink(input, "input");
  if (link.ok()) {
    fuzz::Require(EncodeLink(*link) == input, "a link has one spelling");
    (void)CheckLink(*link, 7, link->previous);
  }
  const auto row = DecodeRow(WithChecksum(input), "input");
  if (!row.ok()) return;
  const std::string stored = EncodeRow(*row);
  const auto again = DecodeRow(stored, "stored");
  fuzz::Require(again.ok() && EncodeRow(*again) == stored, "a row is stored as it was read");
  fuzz::Require(KeyOf(*again).key == KeyOf(*row).key, "a row keeps its key");
  State state;
  state.Absorb(*row);
  state.Absorb(*again);
}

}  // namespace assay
