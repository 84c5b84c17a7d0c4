// assayd key: the keys of the transparency log.

#include <cstdio>

#include "CLI/CLI.hpp"
#include "server/commands.h"
#include "server/core/state.h"
#include "server/engine/store_keys.h"
#include "server/flags.h"
#include "storage/base/clock.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/db/catalogue.h"

namespace assay {
namespace {

struct KeyOptions {
  std::string data, anchor;
  CommandSignerOptions signer, next;
};

void Print(const KeyList& list) {
  std::printf("%-64s %-8s %-12s %-12s %s\n", "KEY", "STATE", "FIRST LEAF", "END LEAF", "CREATED");
  for (const LogKey& key : list.keys()) {
    std::printf("%s %-8s %-12llu %-12s %s\n", key.key.key_id().c_str(),
                key.end_leaf ? "retired" : "active",
                static_cast<unsigned long long>(key.first_leaf),
                key.end_leaf ? std::to_string(*key.end_leaf).c_str() : "-",
                FormatUtc(key.create_ms).c_str());
  }
}

absl::Status List(const KeyOptions& options) {
  const std::string path = JoinPath(options.data, "keys.json");
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kKeyListBytesMax));
  ASSAY_ASSIGN_OR_RETURN(const KeyList list, KeyList::Parse(bytes, path));
  Print(list);
  return absl::OkStatus();
}

// The store is opened, and so locked, verified and compared with its anchor, before its key
// changes.
absl::Status Rotate(const KeyOptions& options) {
  if (!IsDirectory(options.data)) {
    return NotFoundError("FILE_MISSING", options.data + " is no data folder of assayd");
  }
  ASSAY_ASSIGN_OR_RETURN(const auto catalogue, Catalogue::Open({options.data, options.anchor}));
  State state;
  ASSAY_RETURN_IF_ERROR(catalogue->LoadAll([&](Row row) { state.Absorb(row); }));
  const int64_t now = Clock::Real()->UnixMillis();
  ASSAY_ASSIGN_OR_RETURN(const OpenKeys keys,
                         OpenStoreKeys(options.data, options.signer, state, now));
  std::unique_ptr<Signer> next;
  if (!options.next.program.empty()) {
    ASSAY_ASSIGN_OR_RETURN(next, OpenCommandSigner(options.next));
  }
  const KeyStoreOptions store{options.data, false, now};
  ASSAY_ASSIGN_OR_RETURN(const KeyList list,
                         RotateKey(keys, store, state.meta.log_size, next.get()));
  Print(list);
  return absl::OkStatus();
}

}  // namespace

int KeyCommand(int argc, char** argv) {
  KeyOptions options;
  CLI::App app("The keys that the transparency log is signed with.", "assayd key");
  app.require_subcommand(1);
  CLI::App* list = app.add_subcommand("list", "List the keys and the leaves that each one signed");
  CLI::App* rotate = app.add_subcommand(
      "rotate",
      "Put a new key in the place of the active one; assayd must not run. Receipts of the "
      "old key keep verifying; its private half is kept as signing.key.ID.retired");
  for (CLI::App* command : {list, rotate}) {
    command->add_option("--data", options.data, "Data folder of assayd ($ASSAY_DATA)");
  }
  rotate->add_option("--anchor", options.anchor, "As of assayd");
  rotate->add_option("--signer-command", options.signer.program, "As of assayd: of the old key");
  rotate->add_option("--signer-key", options.signer.public_key, "As of assayd: of the old key");
  rotate->add_option("--next-signer-command", options.next.program,
                     "The program that signs with the new key; default: a new key in the folder");
  rotate->add_option("--next-signer-key", options.next.public_key, "Its public key, PEM");
  app.footer("Example:\n  assayd key rotate --data /srv/assay");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.data.empty()) options.data = DefaultDataDir();
  return ReportCommandError(*list ? List(options) : Rotate(options));
}

}  // namespace assay
