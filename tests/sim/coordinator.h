// The coordinator's lives: the product's core, catalogue and sealing, with a single-threaded shell
// where the product has threads.

#ifndef ASSAY_TESTS_SIM_COORDINATOR_H_
#define ASSAY_TESTS_SIM_COORDINATOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "server/core/apply.h"
#include "storage/db/catalogue.h"
#include "storage/seal/signer.h"
#include "tests/sim/store.h"
#include "tests/sim/world.h"

namespace assay::sim {

class Coordinator {
 public:
  // What the asker gets: outcome and committed state. Runs after the commit, before time goes on.
  using Reply = std::function<void(const Outcome&, const State&)>;

  explicit Coordinator(World* world);

  bool up() const { return catalogue_ != nullptr; }
  // A process starts: opens the store and bumps the epoch. May crash on the way or refuse.
  void Boot();
  // The process ends at once.
  void Crash(const std::string& why);
  // A command has arrived. Nobody hears of it when the process ends first.
  void Deliver(Command command, Reply reply);
  // Somebody looks at the committed state.
  void Look(std::function<void(const State&)> look);

  const State& state() const { return state_; }
  uint64_t lives() const { return lives_; }
  uint64_t refused_damage() const { return refused_damage_; }
  // Commits take this long from now on.
  void SetSlow(int64_t sync_ms) { sync_ms_ = sync_ms; }

 private:
  struct Item {
    Command command;
    Reply reply;
    std::function<void(const State&)> look;
  };
  void Wake();
  void RunBatch();
  void Perform(const Effects& effects);
  void SealNext();
  void SealOne(const std::string& run, size_t candidate);
  void TickSoon();

  World* world_;
  std::unique_ptr<Signer> signer_;
  int64_t recheck_per_mille_;
  State state_;
  std::unique_ptr<Catalogue> catalogue_;
  uint64_t life_ = 0, lives_ = 0, calls_ = 0, refused_damage_ = 0;
  std::deque<Item> inbox_;
  bool busy_ = false;
  int64_t sync_ms_ = 0;
  std::deque<std::string> to_seal_;
  bool sealing_ = false;
};

}  // namespace assay::sim

#endif  // ASSAY_TESTS_SIM_COORDINATOR_H_
