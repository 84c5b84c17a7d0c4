// A stream of messages from a client, read by a thread of its own that waits for each only so long:
// a handler that blocks in a read could never answer a client that sends nothing more.
//
// One message is on its way while the one before is worked on, and no more: a slow disk slows the
// client down and takes no memory.

#ifndef ASSAY_SERVER_RPC_UPLOAD_STREAM_H_
#define ASSAY_SERVER_RPC_UPLOAD_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "server/rpc/gate.h"
#include "storage/base/status.h"

namespace assay::rpc {

using UploadClock = std::chrono::steady_clock;

// Belongs to gRPC once the handler has returned it, until OnDone.
template <class Request>
class UploadStream final : public grpc::ServerReadReactor<Request> {
 public:
  enum class Next { kMessage, kEnd, kLate };

  UploadStream() { this->StartRead(&incoming_); }

  // The next message; kEnd when the client has ended the stream or is gone, kLate when neither came
  // before `deadline`.
  Next Take(Request* request, UploadClock::time_point deadline) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!cv_.wait_until(lock, deadline, [this] { return arrived_ || ended_; })) {
        return Next::kLate;
      }
      if (!arrived_) return Next::kEnd;
      std::swap(*request, incoming_);
      arrived_ = false;
    }
    this->StartRead(&incoming_);
    return Next::kMessage;
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    (ok ? arrived_ : ended_) = true;
    cv_.notify_all();
  }
  void OnDone() override { delete this; }

 private:
  std::mutex mutex_;
  std::condition_variable cv_;
  bool arrived_ = false, ended_ = false;
  Request incoming_;  // gRPC's while neither is set
};

// How many streams of a service are being read. Its end waits for theirs.
class UploadThreads {
 public:
  ~UploadThreads() {
    std::unique_lock<std::mutex> lock(mutex_);
    cv_.wait(lock, [this] { return running_ == 0; });
  }

  // Runs `body` in a thread. False when the system has no more threads.
  bool Run(std::function<void()> body) {
    Add(1);
    try {
      std::thread([this, body = std::move(body)]() mutable {
        body();
        body = nullptr;
        Add(-1);
      }).detach();
      return true;
    } catch (const std::system_error&) {
      Add(-1);
      return false;
    }
  }

 private:
  void Add(int difference) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ += difference;
    cv_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable cv_;
  int running_ = 0;
};

// What a handler returns: `body` reads the stream in one of `threads`, and its status ends the
// call. The gate's limits on uploads bound the threads.
template <class Request, class Body>
grpc::ServerReadReactor<Request>* ServeUpload(Gate* gate, UploadThreads* threads,
                                              grpc::CallbackServerContext* context,
                                              std::string_view method, Body body) {
  auto* stream = new UploadStream<Request>();
  auto call = std::make_shared<Call>(gate, context, method);
  if (!call->admitted()) {
    stream->Finish(call->refusal());
    return stream;
  }
  const bool runs = threads->Run([stream, call, body]() mutable {
    grpc::Status status = body(*call, *stream);
    call.reset();  // room for the next one before the client hears of this one's end
    stream->Finish(std::move(status));
  });
  if (!runs) {
    stream->Finish(call->Answer(
        UnavailableError("TOO_MANY_UPLOADS", "no thread is left for this upload; try again soon"),
        ""));
  }
  return stream;
}

}  // namespace assay::rpc

#endif  // ASSAY_SERVER_RPC_UPLOAD_STREAM_H_
