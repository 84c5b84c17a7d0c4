// The keys of a coordinator on disk: DIR/signing.key (the active private key, unless a program
// signs), DIR/signing.key.pub, DIR/keys.json (assay-keys/1: every key that the log has had).
//
// A rotation is decided by the one atomic replacement of keys.json. A crash before it leaves the
// old key in use, a crash after it is finished at the next opening.

#ifndef ASSAY_STORAGE_SEAL_KEY_STORE_H_
#define ASSAY_STORAGE_SEAL_KEY_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/seal/key_list.h"
#include "storage/seal/signer.h"

namespace assay {

struct OpenKeys {
  std::unique_ptr<Signer> signer;  // of list.active()
  KeyList list;
};

struct KeyStoreOptions {
  std::string dir;
  bool create = true;  // make a key when there is none; a log that has leaves must not get another
  int64_t now_ms = 0;
};

// Opens the keys; `external` signs instead of DIR/signing.key when it is given.
// KEY_MISSING when there is no key and none may be made; KEY_MISMATCH when the signer is not the
// active key of keys.json; KEY_LIST_INVALID; Signer's errors.
absl::StatusOr<OpenKeys> OpenKeyStore(const KeyStoreOptions& options,
                                      std::unique_ptr<Signer> external);

// Makes `next` (null: a new key in DIR/signing.key) the active key from leaf `first_leaf` on. The
// private key that it follows, when it lies in DIR, is kept as DIR/signing.key.<id>.retired. The
// new list. The caller holds the store's lock.
absl::StatusOr<KeyList> RotateKey(const OpenKeys& keys, const KeyStoreOptions& options,
                                  uint64_t first_leaf, const Signer* next);

}  // namespace assay

#endif  // ASSAY_STORAGE_SEAL_KEY_STORE_H_
