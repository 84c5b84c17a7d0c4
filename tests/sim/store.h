// A key-value store with a write-ahead log on a simulated disk, as careless as RocksDB: at the
// first record that it cannot read it stops, drops the rest, and says nothing.

#ifndef ASSAY_TESTS_SIM_STORE_H_
#define ASSAY_TESTS_SIM_STORE_H_

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/db/catalogue.h"
#include "tests/sim/disk.h"

namespace assay::sim {

inline constexpr const char* kLogFile = "log";
inline constexpr const char* kAnchorFile = "anchor";

class LogStore : public KvStore {
 public:
  // Replays the log. `disk` must outlive it.
  explicit LogStore(Disk* disk);
  absl::Status Write(const std::vector<KvPut>& puts) override;
  absl::StatusOr<std::optional<std::string>> Get(size_t table, std::string_view key) const override;
  absl::Status Scan(size_t table, std::string_view first, std::string_view end,
                    const Sink& sink) const override;

  using Table = std::map<std::string, std::string, std::less<>>;
  const Table& table(size_t i) const { return tables_[i]; }

 private:
  void Put(const KvPut& put);
  bool Replay(std::string_view payload);

  Disk* disk_;
  uint64_t end_ = 0;  // of the log
  bool failed_ = false;
  std::array<Table, kCatalogueTables> tables_;
};

// The anchor's bytes on the simulated disk.
std::unique_ptr<AnchorFile> NewSimAnchor(Disk* disk);

}  // namespace assay::sim

#endif  // ASSAY_TESTS_SIM_STORE_H_
