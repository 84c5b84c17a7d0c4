// assayd token: who may call.

#include <cstdio>

#include "CLI/CLI.hpp"
#include "server/auth/tokens.h"
#include "server/commands.h"
#include "server/flags.h"
#include "storage/base/clock.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr int64_t kDayMs = 86'400'000;

struct TokenOptions {
  std::string data, file, name, role, out;
  int64_t days = 0;
  std::string path() const {
    if (!file.empty()) return file;
    return JoinPath(data.empty() ? DefaultDataDir() : data, kTokensFile);
  }
};

absl::Status Create(const TokenOptions& options) {
  const int64_t now = Clock::Real()->UnixMillis();
  const int64_t expire = options.days == 0 ? 0 : now + options.days * kDayMs;
  const Role role = *RoleOf(options.role);
  ASSAY_RETURN_IF_ERROR(EnsureDirectory(DirName(options.path()), 0750));
  ASSAY_ASSIGN_OR_RETURN(const std::string token,
                         CreateToken(options.path(), options.name, role, expire, now));
  if (options.out.empty()) {
    std::printf("%s\n", token.c_str());
    return absl::OkStatus();
  }
  return WriteFileAtomic(options.out, token + "\n", 0600);
}

absl::Status List(const TokenOptions& options) {
  ASSAY_ASSIGN_OR_RETURN(const std::vector<Token> tokens, ReadTokens(options.path()));
  const auto time = [](int64_t ms) { return ms == 0 ? std::string("-") : FormatUtc(ms); };
  std::printf("%-16s %-9s %-24s %-24s %-24s %s\n", "ID", "ROLE", "CREATED", "EXPIRES", "REVOKED",
              "NAME");
  for (const Token& token : tokens) {
    std::printf("%-16s %-9s %-24s %-24s %-24s %s\n", token.id.c_str(),
                std::string(RoleName(token.role)).c_str(), time(token.create_ms).c_str(),
                time(token.expire_ms).c_str(), time(token.revoke_ms).c_str(), token.name.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int ReportCommandError(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "assayd: error [%s]: %s\n", ReasonOf(status).c_str(),
               MessageOf(status).c_str());
  return ReasonOf(status) == "STORE_IN_USE" ? 22 : 1;
}

int TokenCommand(int argc, char** argv) {
  TokenOptions options;
  CLI::App app(
      "Who may call the coordinator. A running assayd takes changes up by itself, within a "
      "second; the first token needs a start of it.",
      "assayd token");
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* what) {
    CLI::App* command = app.add_subcommand(name, what);
    command->add_option("--data", options.data, "Data folder of assayd ($ASSAY_DATA)");
    command->add_option("--tokens", options.file, "File with the tokens (DIR/tokens.json)");
    return command;
  };
  CLI::App* create = add("create", "Make a token and print it: it is not shown again");
  create->add_option("--name", options.name, "Who gets it; the principal of its calls")->required();
  create->add_option("--role", options.role, "reader, submitter, worker or admin")
      ->required()
      ->check(CLI::IsMember({"reader", "submitter", "worker", "admin"}));
  create->add_option("--days", options.days, "Days until it expires; 0: never")
      ->check(CLI::Range(0, 36'500));
  create->add_option("--out", options.out, "Write it into this file, mode 0600, instead");
  CLI::App* list = add("list", "List tokens: never what would let anybody in");
  CLI::App* revoke = add("revoke", "End a token; its running calls end within a second");
  revoke->add_option("TOKEN", options.name, "Its id or name")->required();
  app.footer(
      "Examples:\n  assayd token create --data /srv/assay --name lab-1 --role submitter "
      "--out lab-1.token\n  assayd token revoke --data /srv/assay lab-1");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*create) return ReportCommandError(Create(options));
  if (*list) return ReportCommandError(List(options));
  return ReportCommandError(RevokeToken(options.path(), options.name, Clock::Real()->UnixMillis()));
}

}  // namespace assay
