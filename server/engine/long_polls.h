// Workers' calls that wait for work: as many are woken as there are units to give out, so that a
// change does not make hundreds of idle workers ask at once.

#ifndef ASSAY_SERVER_ENGINE_LONG_POLLS_H_
#define ASSAY_SERVER_ENGINE_LONG_POLLS_H_

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>

namespace assay {

// Thread-safe. A call notes offers(), looks for work, and waits as a Poll when it found none. One
// that was woken and takes nothing must call PassOn while there is work left: another may be able
// to. So every poll that could take a unit looks at it before anybody rests.
class LongPolls {
 public:
  class Poll {
   public:
    // `seen`: offers() from before the caller looked. Counts as woken when there were offers since.
    Poll(LongPolls* polls, uint64_t seen);
    ~Poll() { Leave(); }
    Poll(const Poll&) = delete;
    Poll& operator=(const Poll&) = delete;

    // Returns when woken, after `ms` at the latest; whether woken.
    bool Wait(int64_t ms);
    // Waits no more; whether woken. Idempotent.
    bool Leave();

   private:
    friend class LongPolls;
    LongPolls* const polls_;
    const uint64_t seen_;
    bool woken_ = false, waiting_ = false;
    std::list<Poll*>::iterator place_;
    std::condition_variable cv_;
  };

  uint64_t offers() const;
  size_t waiting() const;
  // There may be work for those who looked before: wakes up to `units`, longest waiting first.
  void Offer(size_t units);
  // Wakes one more that has not looked since the last offer.
  void PassOn();
  void WakeAll();

 private:
  void WakeFirst();  // with mutex_ held

  mutable std::mutex mutex_;
  uint64_t offers_ = 0;
  std::list<Poll*> waiting_;  // none of them woken; seen_ never falls along the list
};

}  // namespace assay

#endif  // ASSAY_SERVER_ENGINE_LONG_POLLS_H_
