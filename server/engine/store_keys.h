// The signing keys of a store, checked against the receipts that it holds.

#ifndef ASSAY_SERVER_ENGINE_STORE_KEYS_H_
#define ASSAY_SERVER_ENGINE_STORE_KEYS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/core/state.h"
#include "storage/seal/command_signer.h"
#include "storage/seal/key_store.h"

namespace assay {

// Opens the keys of the store in `dir`, whose rows `state` holds. `signer.program` empty: the key
// in the folder. STORE_DAMAGED when a receipt of the store was signed by a key that is not there
// any more (another one beside it would refute it), or outside the leaves that its key was in use
// for.
absl::StatusOr<OpenKeys> OpenStoreKeys(const std::string& dir, const CommandSignerOptions& signer,
                                       const State& state, int64_t now_ms);

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_STORE_KEYS_H_
