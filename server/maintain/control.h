// A Unix socket in the data folder through which `assayd backup` and `assayd gc` reach the
// coordinator that uses it.
//
// Paths of backups are the operator's, who may read and write the data folder anyway; they never
// come over the network. The socket's mode is 0600. One JSON object each way, ended by a newline.

#ifndef ASSAY_SERVER_MAINTAIN_CONTROL_H_
#define ASSAY_SERVER_MAINTAIN_CONTROL_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/json.h"

namespace assay {

// The text to print, or an error.
using ControlHandler = std::function<absl::StatusOr<std::string>(const Json& request)>;

class ControlServer {
 public:
  // Listens at data_dir/control. FILE_* when that cannot be made.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(const std::string& data_dir,
                                                              ControlHandler handler);
  ~ControlServer();  // waits for the request that is being handled
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  ControlServer(std::string path, int listen_fd, int stop_fd, ControlHandler handler);
  void Loop();
  void Serve(int fd);

  std::string path_;
  int listen_fd_, stop_fd_;
  ControlHandler handler_;
  std::thread thread_;
};

// Sends `request` and waits for the answer. COORDINATOR_NOT_RUNNING when nobody listens.
absl::StatusOr<std::string> AskCoordinator(const std::string& data_dir, const Json& request);

}  // namespace assay

#endif  // ASSAY_SERVER_MAINTAIN_CONTROL_H_
