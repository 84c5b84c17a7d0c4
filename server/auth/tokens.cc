#include "server/auth/tokens.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/json_fields.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

constexpr std::string_view kSchema = "assay-tokens/1";
constexpr std::string_view kPrefix = "assay_";
constexpr size_t kIdHex = 16, kSaltHex = 32, kSecretHex = 64;
constexpr int64_t kTimeMax = int64_t{1} << 53;

bool IsHex(std::string_view text, size_t size) {
  return text.size() == size &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string RandomHexOf(size_t hex) {
  std::vector<uint8_t> bytes(hex / 2);
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return "";
  return HexOf(bytes);
}

std::string HashOf(const std::string& salt, std::string_view secret) {
  return Sha256Hex(salt + std::string(secret));
}

bool SameHash(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::StatusOr<Token> ReadToken(const Json& json) {
  const JsonFields fields(json, "token");
  Token token;
  ASSAY_ASSIGN_OR_RETURN(token.id, fields.String("id"));
  ASSAY_ASSIGN_OR_RETURN(token.name, fields.String("name"));
  ASSAY_ASSIGN_OR_RETURN(const std::string role, fields.String("role"));
  ASSAY_ASSIGN_OR_RETURN(token.salt, fields.String("salt"));
  ASSAY_ASSIGN_OR_RETURN(token.sha256, fields.Sha256("sha256"));
  ASSAY_ASSIGN_OR_RETURN(token.create_ms, fields.Int("create_time", 0, kTimeMax));
  ASSAY_ASSIGN_OR_RETURN(token.expire_ms, fields.Int("expire_time", 0, kTimeMax));
  ASSAY_ASSIGN_OR_RETURN(token.revoke_ms, fields.Int("revoke_time", 0, kTimeMax));
  const auto known = RoleOf(role);
  if (!known) return fields.Invalid("role", "is none of reader, submitter, worker, admin");
  token.role = *known;
  if (!IsHex(token.id, kIdHex)) return fields.Invalid("id", "is not 16 hex characters");
  if (!IsHex(token.salt, kSaltHex)) return fields.Invalid("salt", "is not 32 hex characters");
  return token;
}

absl::Status WriteTokens(const std::string& path, const std::vector<Token>& tokens) {
  Json list = Json::array();
  for (const Token& token : tokens) {
    list.push_back({{"id", token.id},
                    {"name", token.name},
                    {"role", std::string(RoleName(token.role))},
                    {"salt", token.salt},
                    {"sha256", token.sha256},
                    {"create_time", token.create_ms},
                    {"expire_time", token.expire_ms},
                    {"revoke_time", token.revoke_ms}});
  }
  const Json json{{"schema", std::string(kSchema)}, {"tokens", std::move(list)}};
  return WriteFileAtomic(path, json.dump(1) + "\n", 0600);
}

// Two commands that change one file at a time must not lose each other's change.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : fd_(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (fd_ >= 0) ::flock(fd_, LOCK_EX);
  }
  ~FileLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int fd_;
};

bool CountsAt(const Token& token, int64_t now_ms) {
  return token.revoke_ms == 0 && (token.expire_ms == 0 || now_ms < token.expire_ms);
}

absl::Status Refused(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kUnauthenticated, reason, message);
}

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kReader:
      return "reader";
    case Role::kSubmitter:
      return "submitter";
    case Role::kWorker:
      return "worker";
    case Role::kAdmin:
      break;
  }
  return "admin";
}

std::optional<Role> RoleOf(std::string_view name) {
  for (const Role role : kRoles) {
    if (RoleName(role) == name) return role;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Token>> ReadTokens(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoError(errno, "opening the tokens " + path);
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return PreconditionError("TOKENS_PERMISSIONS",
                             path + ": only the user of assayd may use this file; run chmod 600");
  }
  ASSAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kTokenFileBytesMax));
  const auto invalid = [&](const std::string& what) {
    return InvalidError("TOKENS_INVALID", path + ": " + what + "; restore it from a backup");
  };
  const auto json = ParseJson(bytes, path);
  if (!json.ok()) return invalid(MessageOf(json.status()));
  const JsonFields fields(*json, "tokens");
  const auto schema = fields.String("schema");
  const auto list = fields.Array("tokens");
  if (!schema.ok() || *schema != kSchema || !list.ok() || (*list)->size() > kTokensMax) {
    return invalid("is no list of tokens, assay-tokens/1");
  }
  std::vector<Token> tokens;
  for (const Json& entry : **list) {
    auto token = ReadToken(entry);
    if (!token.ok()) return invalid(MessageOf(token.status()));
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

absl::StatusOr<std::string> CreateToken(const std::string& path, const std::string& name, Role role,
                                        int64_t expire_ms, int64_t now_ms) {
  const bool plain =
      !name.empty() && name.size() <= kTokenNameMax && name != "local" && name != "coordinator" &&
      name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
          std::string::npos;
  if (!plain) {
    return InvalidError("TOKEN_NAME_INVALID",
                        "a token's name is 1 to 64 characters of A-Z a-z 0-9 . _ -, and neither "
                        "local nor coordinator");
  }
  const FileLock lock(path);
  std::vector<Token> tokens;
  if (FileExists(path)) {
    ASSAY_ASSIGN_OR_RETURN(tokens, ReadTokens(path));
  }
  const bool taken = std::any_of(tokens.begin(), tokens.end(), [&](const Token& token) {
    return token.name == name && CountsAt(token, now_ms);
  });
  if (taken) {
    return PreconditionError("TOKEN_NAME_TAKEN", "there is a token of the name " + name +
                                                     "; revoke it first, or choose another name");
  }
  if (tokens.size() >= kTokensMax) {
    return ExhaustedError("TOO_MANY_TOKENS", path + ": holds " + std::to_string(kTokensMax) +
                                                 " tokens; remove those revoked long ago");
  }
  Token token{RandomHexOf(kIdHex), name, role, RandomHexOf(kSaltHex), "", now_ms, expire_ms, 0};
  const std::string secret = RandomHexOf(kSecretHex);
  if (secret.empty() || token.salt.empty() || token.id.empty()) {
    return InternalError("SIGNING_FAILED", "OpenSSL gave no random bytes");
  }
  token.sha256 = HashOf(token.salt, secret);
  tokens.push_back(token);
  ASSAY_RETURN_IF_ERROR(WriteTokens(path, tokens));
  return std::string(kPrefix) + token.id + "_" + secret;
}

absl::Status RevokeToken(const std::string& path, const std::string& id_or_name, int64_t now_ms) {
  const FileLock lock(path);
  ASSAY_ASSIGN_OR_RETURN(std::vector<Token> tokens, ReadTokens(path));
  bool found = false;
  for (Token& token : tokens) {
    if ((token.id != id_or_name && token.name != id_or_name) || token.revoke_ms != 0) continue;
    token.revoke_ms = std::max<int64_t>(now_ms, 1);
    found = true;
  }
  if (!found) {
    return NotFoundError("TOKEN_UNKNOWN", "no token that counts has the id or name " + id_or_name +
                                              "; assayd token list shows them");
  }
  return WriteTokens(path, tokens);
}

absl::StatusOr<std::unique_ptr<TokenStore>> TokenStore::Open(const std::string& path) {
  std::unique_ptr<TokenStore> store(new TokenStore(path));
  const std::lock_guard lock(store->mutex_);
  store->Refresh();
  ASSAY_RETURN_IF_ERROR(store->status_);
  return store;
}

void TokenStore::Refresh() {
  struct stat info {};
  std::string version = "missing";
  if (::stat(path_.c_str(), &info) == 0) {
    version = std::to_string(info.st_dev) + " " + std::to_string(info.st_ino) + " " +
              std::to_string(info.st_size) + " " + std::to_string(info.st_mode) + " " +
              std::to_string(info.st_ctim.tv_sec) + "." + std::to_string(info.st_ctim.tv_nsec);
  }
  if (version == version_) return;
  version_ = version;
  auto tokens = ReadTokens(path_);
  status_ = tokens.status();
  tokens_.clear();
  if (tokens.ok()) tokens_ = *std::move(tokens);
}

absl::StatusOr<Caller> TokenStore::Authenticate(std::string_view text, int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  Refresh();
  if (!status_.ok()) {
    return UnavailableError("TOKENS_INVALID",
                            "the coordinator cannot read its list of tokens, and lets nobody in; "
                            "its administrator must look at its log");
  }
  const absl::Status wrong =
      Refused("TOKEN_INVALID",
              "the token is not one of this coordinator; ask its administrator "
              "for one (assayd token create) and give the file as --token-file");
  if (text.size() != kPrefix.size() + kIdHex + 1 + kSecretHex || text.rfind(kPrefix, 0) != 0 ||
      text[kPrefix.size() + kIdHex] != '_') {
    return wrong;
  }
  const std::string_view id = text.substr(kPrefix.size(), kIdHex);
  const std::string_view secret = text.substr(kPrefix.size() + kIdHex + 1);
  const auto token =
      std::find_if(tokens_.begin(), tokens_.end(), [&](const Token& t) { return t.id == id; });
  if (token == tokens_.end() || !SameHash(HashOf(token->salt, secret), token->sha256)) return wrong;
  if (token->revoke_ms != 0) {
    return Refused("TOKEN_REVOKED", "the token " + token->name + " was revoked; ask for a new one");
  }
  if (!CountsAt(*token, now_ms)) {
    return Refused("TOKEN_EXPIRED", "the token " + token->name + " has expired; ask for a new one");
  }
  return Caller{token->name, token->id, token->role};
}

bool TokenStore::Counts(const std::string& token_id, int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  Refresh();
  return status_.ok() && std::any_of(tokens_.begin(), tokens_.end(), [&](const Token& token) {
           return token.id == token_id && CountsAt(token, now_ms);
         });
}

}  // namespace assay
