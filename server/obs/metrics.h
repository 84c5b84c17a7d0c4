// Prometheus metrics of the coordinator, read from the engine at each scrape.

#ifndef ASSAY_SERVER_OBS_METRICS_H_
#define ASSAY_SERVER_OBS_METRICS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"

namespace assay {

// Serves /metrics over HTTP for the object's life. docs/metrics.md lists the names.
class MetricsServer {
 public:
  // `address` is HOST:PORT. PORT_IN_USE naming it. `engine` must outlive the server.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const Engine* engine,
                                                              const std::string& address);
  ~MetricsServer();
  int port() const;

 private:
  struct Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The text of one scrape; for tests.
std::string MetricsText(const Engine& engine);

}  // namespace assay

#endif  // ASSAY_SERVER_OBS_METRICS_H_
