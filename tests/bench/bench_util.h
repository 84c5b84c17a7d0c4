// Clocks, samples and memory of the bench programs.

#ifndef ASSAY_TESTS_BENCH_BENCH_UTIL_H_
#define ASSAY_TESTS_BENCH_BENCH_UTIL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "storage/base/json.h"

namespace assay::bench {

double Wall();       // seconds
double Processor();  // seconds of processor time of all threads: what a busy machine disturbs least

// Durations of one thing, measured again and again in turn with what it is compared with.
class Samples {
 public:
  // Runs `body` once and keeps its wall and processor time.
  void Take(const std::function<void()>& body);
  double wall() const;       // the smallest
  double processor() const;  // the smallest
  double median() const;     // of the wall times
  const std::vector<double>& walls() const { return wall_; }
  const std::vector<double>& processors() const { return processor_; }
  Json ToJson() const;  // seconds

 private:
  std::vector<double> wall_, processor_;
};

// Both bodies once, the second first every other time: what they find in caches, and a machine that
// is slow for a while, then weigh on both.
void TakeInTurn(Samples* a, const std::function<void()>& body_a, Samples* b,
                const std::function<void()>& body_b);

// The middle one; of an even number the larger of the two in the middle.
double MedianOf(std::vector<double> values);

// {"wall": median of a[i] / b[i], "processor": the same of processor times, "least": of the
// smallest wall times}. Samples that were not taken in pairs: medians over medians.
Json Ratio(const Samples& a, const Samples& b);

// Largest resident set of this process so far, and the anonymous part of it now. Bytes.
uint64_t PeakMemory();

// Runs `body` in a child process and returns what it printed as its result; ends the program when
// the child fails. So peaks of memory do not meet.
Json InChild(const std::function<Json()>& body);

// --name value pairs with their defaults; ends the program with status 2 on any other word.
using Flags = std::map<std::string, std::string>;
void ReadFlags(int argc, char** argv, int first, Flags* flags);
uint64_t Number(const Flags& flags, const std::string& name);

[[noreturn]] void Die(const std::string& why);

}  // namespace assay::bench

#endif  // ASSAY_TESTS_BENCH_BENCH_UTIL_H_
