// The files of mutual TLS, checked before a listener starts with them: gRPC itself says nothing
// about a bad file, it refuses every connection.

#ifndef ASSAY_SERVER_AUTH_CERTIFICATES_H_
#define ASSAY_SERVER_AUTH_CERTIFICATES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace assay {

inline constexpr uint64_t kPemFileBytesMax = uint64_t{1} << 20;

struct TlsFiles {
  std::string certificate;  // PEM: the server's certificate, then those between it and its CA
  std::string key;          // PEM, only for its owner
  std::string client_ca;    // PEM: CAs whose clients may connect
  bool empty() const { return certificate.empty() && key.empty() && client_ca.empty(); }
};

// TLS_INVALID naming the file: one of the three is missing, no PEM, expired or not yet valid, or
// the key is not the certificate's; KEY_PERMISSIONS for a key that others may use.
absl::Status CheckTlsFiles(const TlsFiles& files);

}  // namespace assay

#endif  // ASSAY_SERVER_AUTH_CERTIFICATES_H_
