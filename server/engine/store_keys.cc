#include "server/engine/store_keys.h"

#include <algorithm>
#include <map>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {

absl::StatusOr<OpenKeys> OpenStoreKeys(const std::string& dir, const CommandSignerOptions& signer,
                                       const State& state, int64_t now_ms) {
  const std::string path = JoinPath(dir, "signing.key");
  const auto lost = [&](const std::string& what) {
    return DataLossError("STORE_DAMAGED", path + what + " the key that signed the " +
                                              std::to_string(state.receipts.size()) +
                                              " receipts of this store; restore it from a backup");
  };
  const bool external = !signer.program.empty();
  const bool listed = FileExists(JoinPath(dir, "keys.json"));
  if (!state.receipts.empty() && !listed && !external && !FileExists(path)) {
    return lost(" is missing:");
  }
  std::unique_ptr<Signer> command;
  if (external) {
    ASSAY_ASSIGN_OR_RETURN(command, OpenCommandSigner(signer));
  } else if (!listed && FileExists(path)) {
    // A store of before keys were listed had one key. It must not get a list that names another.
    ASSAY_ASSIGN_OR_RETURN(const auto only, Signer::Open(path));
    for (const auto& [id, receipt] : state.receipts) {
      if (receipt.key_id != only->key_id()) return lost(" is not");
    }
  }
  KeyStoreOptions options{dir, state.receipts.empty(), now_ms};
  auto keys = OpenKeyStore(options, std::move(command));
  ASSAY_RETURN_IF_ERROR(keys.status());
  std::map<std::string, const LogKey*> by_id;
  for (const LogKey& key : keys->list.keys()) by_id[key.key.key_id()] = &key;
  for (const auto& [id, receipt] : state.receipts) {
    const auto key = by_id.find(receipt.key_id);
    if (key == by_id.end()) return lost(" and keys.json do not have");
    if (const absl::Status fits = keys->list.CheckLeaf(key->second->key, receipt.leaf_index);
        !fits.ok()) {
      return DataLossError("STORE_DAMAGED", JoinPath(dir, "keys.json") + ": receipts/" + id + ": " +
                                                MessageOf(fits) +
                                                "; restore the file from a backup");
    }
  }
  return keys;
}

}  // namespace assay
