#include "server/engine/long_polls.h"

#include <chrono>

namespace assay {

LongPolls::Poll::Poll(LongPolls* polls, uint64_t seen) : polls_(polls), seen_(seen) {
  const std::lock_guard lock(polls_->mutex_);
  woken_ = polls_->offers_ != seen_;
  if (woken_) return;
  place_ = polls_->waiting_.insert(polls_->waiting_.end(), this);
  waiting_ = true;
}

bool LongPolls::Poll::Wait(int64_t ms) {
  std::unique_lock lock(polls_->mutex_);
  return cv_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return woken_; });
}

bool LongPolls::Poll::Leave() {
  const std::lock_guard lock(polls_->mutex_);
  if (waiting_) polls_->waiting_.erase(place_);
  waiting_ = false;
  return woken_;
}

uint64_t LongPolls::offers() const {
  const std::lock_guard lock(mutex_);
  return offers_;
}

size_t LongPolls::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void LongPolls::WakeFirst() {
  Poll* first = waiting_.front();
  waiting_.pop_front();
  first->waiting_ = false;
  first->woken_ = true;
  first->cv_.notify_one();
}

void LongPolls::Offer(size_t units) {
  const std::lock_guard lock(mutex_);
  ++offers_;
  for (; units > 0 && !waiting_.empty(); --units) WakeFirst();
}

void LongPolls::PassOn() {
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty() && waiting_.front()->seen_ != offers_) WakeFirst();
}

void LongPolls::WakeAll() {
  const std::lock_guard lock(mutex_);
  ++offers_;
  while (!waiting_.empty()) WakeFirst();
}

}  // namespace assay
