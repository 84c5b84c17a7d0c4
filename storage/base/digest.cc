#include "storage/base/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "storage/base/macros.h"
#include "storage/base/open_regular.h"
#include "storage/base/status.h"

namespace assay {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() { EVP_DigestInit_ex(context, EVP_sha256(), nullptr); }
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::span<const uint8_t> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}
void Sha256::Update(std::string_view bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

DigestBytes Sha256::Finish() {
  DigestBytes out{};
  unsigned size = 0;
  EVP_DigestFinal_ex(state_->context, out.data(), &size);
  return out;
}

std::string Sha256::FinishHex() { return HexOf(Finish()); }

std::string HexOf(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

DigestBytes Sha256Of(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

std::string Sha256Hex(std::string_view bytes) { return HexOf(Sha256Of(bytes)); }

absl::StatusOr<std::string> Sha256File(const std::string& path) {
  ASSAY_ASSIGN_OR_RETURN(const int fd, OpenRegular(path));
  Sha256 hash;
  std::vector<uint8_t> buffer(1 << 20);
  for (;;) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error_number = errno;
      close(fd);
      return ErrnoError(error_number, "reading " + path);
    }
    if (n == 0) break;
    hash.Update(std::span<const uint8_t>(buffer.data(), static_cast<size_t>(n)));
  }
  close(fd);
  return hash.FinishHex();
}

bool IsSha256Hex(std::string_view text) {
  if (text.size() != 64) return false;
  for (char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

absl::StatusOr<std::string> BytesOfHex(std::string_view hex) {
  auto nibble = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (hex.size() % 2 != 0)
    return InvalidError("INVALID_HEX", "hex text has an odd number of digits");
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = nibble(hex[i]);
    const int low = nibble(hex[i + 1]);
    if (high < 0 || low < 0)
      return InvalidError("INVALID_HEX", "hex text holds a character that is no hex digit");
    out += static_cast<char>(high << 4 | low);
  }
  return out;
}

}  // namespace assay
