// A result folder as one file for a colleague: a plain tar of what a result consists of.
//
// Its first file is kPackManifest ("assay-pack/1"): whether the position arrays are in it, and
// path, size and SHA-256 of every other file. All names start with kPackPrefix, so that unpacking
// by hand makes one folder.

#ifndef ASSAY_STORAGE_SEAL_PACK_H_
#define ASSAY_STORAGE_SEAL_PACK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/seal/verify.h"

namespace assay {

inline constexpr std::string_view kPackPrefix = "assay-result/";
inline constexpr std::string_view kPackManifest = "assay-pack.json";
inline constexpr std::string_view kPackSchema = "assay-pack/1";

struct PackedFiles {
  uint64_t files = 0, bytes = 0;      // without the manifest; bytes of the contents
  std::vector<std::string> left_out;  // names in the folder that no result consists of
};

// Writes `file` from the --out folder of a run, or one candidate's folder. The bytes depend on the
// packed files alone. NOTHING_TO_PACK when there is no result, LINK_REFUSED for a link in the place
// of a file, the errors of TarHeader and of reading.
absl::StatusOr<PackedFiles> PackResult(const std::string& out, bool positions,
                                       const std::string& file);

// Whether `path` is a file that PackResult wrote, or claims to be one.
bool IsPackedResult(const std::string& path);

// A packed result in a folder of its own, which is removed with the object.
class UnpackedResult {
 public:
  // Unpacks below `work` ("" = TMPDIR or /tmp). Every file must be the manifest's, with its digest.
  // PACK_INVALID, TAR_INVALID, DISK_FULL.
  static absl::StatusOr<std::shared_ptr<const UnpackedResult>> Open(const std::string& path,
                                                                    const std::string& work = "");
  ~UnpackedResult();
  UnpackedResult(const UnpackedResult&) = delete;
  UnpackedResult& operator=(const UnpackedResult&) = delete;

  const std::string& folder() const { return folder_; }  // the result
  bool positions() const { return positions_; }          // its arrays are there

 private:
  UnpackedResult() = default;
  absl::Status Unpack(const std::string& path);
  std::string root_, folder_;
  bool positions_ = true;
};

// VerifyDirectory of a packed result; messages name the files as PATH:NAME. Errors of Open are a
// failed gate "pack".
Verification VerifyPackedResult(const std::string& path, const std::string& key_path);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_PACK_H_
