// A signer outside this process: a program that gets the bytes to be signed on standard input and
// writes the 64 bytes of the Ed25519 signature to standard output. The private key never comes near
// the coordinator: it may lie in a hardware module, on another host or with another user.

#ifndef ASSAY_STORAGE_SEAL_COMMAND_SIGNER_H_
#define ASSAY_STORAGE_SEAL_COMMAND_SIGNER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/seal/signer.h"

namespace assay {

struct CommandSignerOptions {
  std::string program;     // absolute path; run without arguments, shell or environment but PATH
  std::string public_key;  // file with the public half, PEM
  int64_t timeout_ms = 30'000;  // of one signature; then the program is killed
};

// A Signer whose every signature is verified before it is given away. Sign fails with
// SIGNER_UNAVAILABLE (not started, timeout, exit status other than 0) or SIGNATURE_REFUSED (other
// than 64 bytes, or not the signature of these bytes by this key); both are kUnavailable, since
// nothing was signed and the same call may be made again. Errors here: SIGNER_INVALID, KEY_INVALID.
absl::StatusOr<std::unique_ptr<Signer>> OpenCommandSigner(const CommandSignerOptions& options);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_COMMAND_SIGNER_H_
