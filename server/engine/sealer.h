// Seals computed candidates, one at a time: report, position arrays, execution record, receipt, log
// leaf.
//
// Everything is a function of committed rows, blobs and the signing key, so that sealing again
// after a crash gives the same bytes; the open intent (run SEALING, candidate COMPUTED) ends in the
// one batch that holds the receipt.

#ifndef ASSAY_SERVER_ENGINE_SEALER_H_
#define ASSAY_SERVER_ENGINE_SEALER_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "server/engine/engine.h"

namespace assay {

class Sealer {
 public:
  explicit Sealer(Engine* engine);  // `engine` must outlive it
  ~Sealer();
  void Enqueue(const std::string& run);
  void Stop();
  SealStats stats() const;

 private:
  void Loop();
  void SealRun(const std::string& run);
  absl::Status SealWhenThereIsRoom(const std::string& run, size_t candidate);
  absl::Status SealCandidate(const std::string& run, size_t candidate);

  Engine* engine_;
  mutable std::mutex mutex_;
  std::condition_variable cv_;
  std::deque<std::string> queue_;
  bool stop_ = false;
  SealStats stats_;
  std::thread thread_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_SEALER_H_
