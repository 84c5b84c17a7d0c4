// What the load bench puts into a coordinator: a suite, two captures, a head, and runs of 32 units.

#ifndef ASSAY_TESTS_BENCH_LOAD_SETUP_H_
#define ASSAY_TESTS_BENCH_LOAD_SETUP_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace assay::bench {

inline constexpr int64_t kUnitsPerRun = 32;  // one context each, one scored position

// Every failing call ends the program.
class Load {
 public:
  // Uploads suite, captures and head. `suite_dir`: deploy/panel/suite.
  Load(std::shared_ptr<grpc::Channel> channel, const std::string& suite_dir);

  // Creates one run of kUnitsPerRun replay units; its name. Thread-safe.
  std::string CreateRun(const std::string& request_id) const;

  // The result of a replay unit, as a worker sends it, from its unit document. A unit's positions
  // are the same in every run, so each context's blob is uploaded once, at its first use.
  std::string ResultOf(const std::string& unit_json);

 private:
  std::string Ingest(const std::string& name, uint16_t value) const;

  std::shared_ptr<grpc::Channel> channel_;
  std::string tokens_, suite_, head_, reference_, candidate_;
  std::vector<int64_t> indices_;
  int64_t context_length_ = 0;
  std::map<int64_t, std::string> results_;
};

}  // namespace assay::bench

#endif  // ASSAY_TESTS_BENCH_LOAD_SETUP_H_
