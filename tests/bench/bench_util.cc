#include "tests/bench/bench_util.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace assay::bench {
namespace {

double Clock(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double Least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

double MedianRatio(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return MedianOf(a) / MedianOf(b);
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return MedianOf(std::move(ratios));
}

}  // namespace

double Wall() { return Clock(CLOCK_MONOTONIC); }
double Processor() { return Clock(CLOCK_PROCESS_CPUTIME_ID); }

void Samples::Take(const std::function<void()>& body) {
  const double wall = Wall(), processor = Processor();
  body();
  wall_.push_back(Wall() - wall);
  processor_.push_back(Processor() - processor);
}

double Samples::wall() const { return Least(wall_); }
double Samples::processor() const { return Least(processor_); }

double Samples::median() const { return MedianOf(wall_); }

Json Samples::ToJson() const {
  return {{"wall", wall()}, {"processor", processor()}, {"median", median()}, {"all", wall_}};
}

void TakeInTurn(Samples* a, const std::function<void()>& body_a, Samples* b,
                const std::function<void()>& body_b) {
  const bool swapped = a->walls().size() % 2 == 1;
  if (swapped) b->Take(body_b);
  a->Take(body_a);
  if (!swapped) b->Take(body_b);
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Json Ratio(const Samples& a, const Samples& b) {
  return {{"wall", MedianRatio(a.walls(), b.walls())},
          {"processor", MedianRatio(a.processors(), b.processors())},
          {"least", a.wall() / b.wall()}};
}

uint64_t PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

Json InChild(const std::function<Json()>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) Die("no pipe");
  const pid_t child = fork();
  if (child < 0) Die("no child process");
  if (child == 0) {
    const std::string text = body().dump();
    const bool written = write(ends[1], text.data(), text.size()) == ssize_t(text.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  auto json = ParseJson(text, "a child's result");
  if (status != 0 || !json.ok()) Die("a child process failed");
  return *json;
}

void ReadFlags(int argc, char** argv, int first, Flags* flags) {
  for (int i = first; i < argc; i += 2) {
    if (!flags->contains(argv[i]) || i + 1 == argc) {
      std::string known;
      for (const auto& [name, value] : *flags) known += " [" + name + " " + value + "]";
      std::fprintf(stderr, "usage: assay_replay_bench ROW%s\n", known.c_str());
      std::exit(2);
    }
    (*flags)[argv[i]] = argv[i + 1];
  }
}

uint64_t Number(const Flags& flags, const std::string& name) {
  return std::strtoull(flags.at(name).c_str(), nullptr, 10);
}

void Die(const std::string& why) {
  std::fprintf(stderr, "assay_replay_bench: %s\n", why.c_str());
  std::exit(1);
}

}  // namespace assay::bench
