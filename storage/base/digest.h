// SHA-256: the only content digest of Assay.

#ifndef ASSAY_STORAGE_BASE_DIGEST_H_
#define ASSAY_STORAGE_BASE_DIGEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay {

using DigestBytes = std::array<uint8_t, 32>;

// Streaming SHA-256 (OpenSSL, hardware instructions where present). Not thread-safe; movable.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::span<const uint8_t> bytes);
  void Update(std::string_view bytes);
  // Ends the stream; the object may not be used afterwards.
  DigestBytes Finish();
  std::string FinishHex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string HexOf(std::span<const uint8_t> bytes);  // lower case
std::string Sha256Hex(std::string_view bytes);      // 64 lower-case hex characters
DigestBytes Sha256Of(std::string_view bytes);

// SHA-256 of a file's bytes, read in 1 MiB pieces. Errors name the file.
absl::StatusOr<std::string> Sha256File(const std::string& path);

// True for exactly 64 characters of [0-9a-f].
bool IsSha256Hex(std::string_view text);

// Bytes of lower- or upper-case hex; INVALID_HEX when odd or not hex.
absl::StatusOr<std::string> BytesOfHex(std::string_view hex);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_DIGEST_H_
