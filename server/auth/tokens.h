// Tokens: who may call the coordinator, and as what. A token is shown once, when it is made:
//
//   assay_<id, 16 hex>_<secret, 64 hex>
//
// The file keeps of it the id, a random salt and SHA-256(salt || secret). The secret has 256 random
// bits, so a slow hash would add nothing. File assay-tokens/1, mode 0600:
//
//   {"schema":"assay-tokens/1","tokens":[{"id","name","role","salt","sha256","create_time",
//     "expire_time","revoke_time"}, ...]}        times in ms since epoch, 0 = never

#ifndef ASSAY_SERVER_AUTH_TOKENS_H_
#define ASSAY_SERVER_AUTH_TOKENS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

enum class Role { kReader, kSubmitter, kWorker, kAdmin };
inline constexpr Role kRoles[] = {Role::kReader, Role::kSubmitter, Role::kWorker, Role::kAdmin};
std::string_view RoleName(Role role);  // "reader", ...
std::optional<Role> RoleOf(std::string_view name);

inline constexpr size_t kTokensMax = 4096;
inline constexpr size_t kTokenNameMax = 64;
inline constexpr uint64_t kTokenFileBytesMax = uint64_t{4} << 20;

struct Token {
  std::string id, name;
  Role role = Role::kReader;
  std::string salt, sha256;  // hex
  int64_t create_ms = 0, expire_ms = 0, revoke_ms = 0;
};

// TOKENS_INVALID naming the file, TOKENS_PERMISSIONS when others than its owner may do anything
// with it, FILE_*.
absl::StatusOr<std::vector<Token>> ReadTokens(const std::string& path);

// Adds a token to the file, which is made when it is missing, and gives its text: the only time
// that it exists. `name` becomes the principal: 1 to 64 characters of [A-Za-z0-9._-], not that of
// another token that still counts. TOKEN_NAME_INVALID, TOKEN_NAME_TAKEN, TOO_MANY_TOKENS.
absl::StatusOr<std::string> CreateToken(const std::string& path, const std::string& name, Role role,
                                        int64_t expire_ms, int64_t now_ms);
// Ends the token of that id or name. TOKEN_UNKNOWN.
absl::Status RevokeToken(const std::string& path, const std::string& id_or_name, int64_t now_ms);

// Who calls.
struct Caller {
  std::string name;      // the principal
  std::string token_id;  // "" where no tokens are used
  Role role = Role::kReader;
};

// The tokens of a file, read again whenever the file changes. Thread-safe.
class TokenStore {
 public:
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(const std::string& path);

  // TOKEN_INVALID (unknown or wrong, which are not told apart), TOKEN_REVOKED, TOKEN_EXPIRED; all
  // kUnauthenticated. TOKENS_INVALID (kUnavailable) while the file cannot be read: then nobody is
  // let in.
  absl::StatusOr<Caller> Authenticate(std::string_view text, int64_t now_ms);
  // True while calls of this token may go on.
  bool Counts(const std::string& token_id, int64_t now_ms);

 private:
  explicit TokenStore(std::string path) : path_(std::move(path)) {}
  void Refresh();  // holds mutex_

  const std::string path_;
  std::mutex mutex_;
  std::string version_;  // of the file as read: device, inode, size, time
  absl::Status status_;
  std::vector<Token> tokens_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_AUTH_TOKENS_H_
