#include "storage/base/uri_path.h"

namespace assay {

std::string GrpcAddress(std::string_view address) {
  constexpr std::string_view kUnix = "unix:";
  if (address.substr(0, kUnix.size()) != kUnix) return std::string(address);
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out(kUnix);
  for (const char c : address.substr(kUnix.size())) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/._-~").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  }
  return out;
}

}  // namespace assay
