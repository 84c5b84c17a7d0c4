#include "storage/seal/key_store.h"

#include <cerrno>
#include <cstdio>

#include "storage/base/files.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr size_t kIdShown = 16;

std::string KeyPath(const KeyStoreOptions& options) { return JoinPath(options.dir, "signing.key"); }
std::string NextPath(const KeyStoreOptions& options) { return KeyPath(options) + ".next"; }
std::string ListPath(const KeyStoreOptions& options) { return JoinPath(options.dir, "keys.json"); }

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoError(errno, "renaming " + from + " to " + to);
}

// Puts the files in the places that `list` asks for: what a rotation does after its decision.
absl::Status FinishRotation(const KeyStoreOptions& options, const KeyList& list) {
  const std::string path = KeyPath(options), next = NextPath(options);
  if (FileExists(path)) {
    ASSAY_ASSIGN_OR_RETURN(const auto signer, Signer::Open(path));
    if (signer->public_key() == list.active().key) return absl::OkStatus();
    const LogKey* old = list.Find(signer->public_key());
    if (old == nullptr || !old->end_leaf) return absl::OkStatus();  // for the caller to refuse
    ASSAY_RETURN_IF_ERROR(
        Rename(path, path + "." + signer->key_id().substr(0, kIdShown) + ".retired"));
  }
  if (FileExists(next)) {
    ASSAY_ASSIGN_OR_RETURN(const auto signer, Signer::Open(next));
    if (signer->public_key() == list.active().key) {
      ASSAY_RETURN_IF_ERROR(Rename(next, path));
      std::remove((next + ".pub").c_str());
    }
  }
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(path + ".pub", list.active().key.pem()));
  return SyncDirectory(options.dir);
}

}  // namespace

absl::StatusOr<OpenKeys> OpenKeyStore(const KeyStoreOptions& options,
                                      std::unique_ptr<Signer> external) {
  OpenKeys out;
  const std::string list_path = ListPath(options);
  const bool listed = FileExists(list_path);
  if (listed) {
    ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(list_path, kKeyListBytesMax));
    ASSAY_ASSIGN_OR_RETURN(out.list, KeyList::Parse(bytes, list_path));
    ASSAY_RETURN_IF_ERROR(FinishRotation(options, out.list));
  }
  if (external != nullptr) {
    out.signer = std::move(external);
  } else if (FileExists(KeyPath(options)) || (options.create && !listed)) {
    ASSAY_ASSIGN_OR_RETURN(out.signer, Signer::OpenOrCreate(KeyPath(options)));
  } else {
    return NotFoundError("KEY_MISSING", KeyPath(options) +
                                            " is missing; restore it from a backup, or give the "
                                            "program that signs (--signer-command)");
  }
  if (!listed) {
    ASSAY_ASSIGN_OR_RETURN(out.list, KeyList::Begin(*out.signer, options.now_ms));
    ASSAY_RETURN_IF_ERROR(WriteFileAtomic(list_path, out.list.bytes()));
  }
  if (!(out.signer->public_key() == out.list.active().key)) {
    return PreconditionError(
        "KEY_MISMATCH",
        list_path + ": the active key is " + out.list.active().key.key_id() + ", the signer has " +
            out.signer->key_id() +
            "; give the signer of the active key, or make the other one active with "
            "assayd key rotate");
  }
  return out;
}

absl::StatusOr<KeyList> RotateKey(const OpenKeys& keys, const KeyStoreOptions& options,
                                  uint64_t first_leaf, const Signer* next) {
  std::unique_ptr<Signer> made;
  if (next == nullptr) {
    ASSAY_ASSIGN_OR_RETURN(made, Signer::OpenOrCreate(NextPath(options)));
    next = made.get();
  }
  ASSAY_ASSIGN_OR_RETURN(KeyList list,
                         keys.list.Rotate(*keys.signer, *next, first_leaf, options.now_ms));
  AssayKillPoint("key:next_stored");
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(ListPath(options), list.bytes()));
  AssayKillPoint("key:list_replaced");
  ASSAY_RETURN_IF_ERROR(FinishRotation(options, list));
  return list;
}

}  // namespace assay
