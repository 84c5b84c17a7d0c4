// Runs every target over the inputs that are kept for it (corpus/TARGET, regressions/TARGET,
// seeds.txt) and over changed copies of them, without libFuzzer: the same on every machine and in
// every run.
//
//   fuzz_corpus_test [--changes N] [--seed S] [--write DIR] [TARGET [FILE...]]
//
// N: changed copies for each target (default 200). --write DIR leaves the inputs in DIR/TARGET, for
// libFuzzer to begin with, and runs nothing. FILEs are run instead of the inputs that are kept. An
// input that ends the process, or takes more than kSecondsMax, is left in fuzz-crash-TARGET.

#include <fcntl.h>
#include <glob.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

constexpr unsigned kSecondsMax = 30;
constexpr uint64_t kInputBytesMax = 256 << 10;
// Address space: an allocation in proportion to a number that was only read ends the process.
constexpr rlim_t kAddressBytesMax = rlim_t{16} << 30;

// What is being run, for the handler of signals.
std::string current_input, current_file;

void LeaveInput(int signal_number) {
  const int fd = ::open(current_file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (fd >= 0 && ::write(fd, current_input.data(), current_input.size()) >= 0) ::close(fd);
  static const char kText[] = "fuzz: the last input was left in fuzz-crash-TARGET\n";
  if (::write(STDERR_FILENO, kText, sizeof(kText) - 1) < 0) ::_exit(1);
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

void Run(const NamedTarget& target, const std::string& input) {
  current_input = input;
  current_file = std::string("fuzz-crash-") + target.name;
  ::alarm(kSecondsMax);
  target.run(input);
  ::alarm(0);
}

std::vector<std::string> Glob(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return paths;
}

std::string Bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  Require(in.good(), ("can be read: " + path).c_str());
  return bytes.str();
}

// The files that seeds.txt names for a target; a line that names nothing is a mistake.
std::vector<std::string> SeedFiles(const std::string& target) {
  std::vector<std::string> paths;
  std::istringstream lines(Bytes(SourceDir() + "/tests/fuzz/seeds.txt"));
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.find(' ');
    if (line[0] == '#' || line.substr(0, blank) != target) continue;
    const std::vector<std::string> found = Glob(SourceDir() + "/" + line.substr(blank + 1));
    Require(!found.empty(), ("names a file: " + line).c_str());
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

std::vector<std::string> InputsOf(const std::string& target) {
  std::vector<std::string> paths = Glob(SourceDir() + "/tests/fuzz/corpus/" + target + "/*");
  for (const auto& more :
       {Glob(SourceDir() + "/tests/fuzz/regressions/" + target + "/*"), SeedFiles(target)})
    paths.insert(paths.end(), more.begin(), more.end());
  std::vector<std::string> inputs;
  for (const std::string& path : paths) inputs.push_back(Bytes(path));
  return inputs;
}

// A copy with a few changes: bytes, numbers that are often mistaken, parts cut, repeated, or taken
// from another input.
class Changer {
 public:
  explicit Changer(uint64_t seed) : random_(seed) {}

  std::string Change(const std::vector<std::string>& inputs) {
    std::string out = inputs[Below(inputs.size())];
    for (size_t n = 1 + Below(4); n > 0; --n) Once(inputs[Below(inputs.size())], &out);
    if (out.size() > kInputBytesMax) out.resize(kInputBytesMax);
    return out;
  }

 private:
  size_t Below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }

  void Once(const std::string& other, std::string* out) {
    static const char* const kTexts[] = {"-1",  "0",    "1e999", "NaN",  "9007199254740993",
                                         "[]",  "{}",   "null",  "\"\"", "18446744073709551616",
                                         "../", "\xff", "1.5",   "true", "\"\\u0000\""};
    static constexpr uint64_t kNumbers[] = {0,          1,          0x7fffffff, 0xffffffff,
                                            1ull << 40, 1ull << 63, ~0ull};
    const size_t at = Below(out->size() + 1);
    const size_t length = std::min(out->size() - at, 1 + Below(32));
    switch (Below(7)) {
      case 0:
        if (at < out->size()) (*out)[at] = static_cast<char>((*out)[at] ^ (1 << Below(8)));
        break;
      case 1:
        out->erase(at, length);
        break;
      case 2:
        out->insert(at, kTexts[Below(std::size(kTexts))]);
        break;
      case 3:
        for (size_t i = 0, number = kNumbers[Below(std::size(kNumbers))];
             i < 8 && at + i < out->size(); ++i)
          (*out)[at + i] = static_cast<char>(number >> (8 * i));
        break;
      case 4:
        out->insert(at, out->substr(at, length));
        break;
      case 5:
        out->resize(at);
        break;
      default:
        out->replace(at, length, other.substr(std::min(at, other.size()), length));
    }
  }

  std::mt19937_64 random_;
};

void Write(const std::string& dir, const std::vector<std::string>& inputs) {
  Require(EnsureDirectory(dir).ok(), "a folder can be made");
  for (const std::string& input : inputs) {
    std::ofstream out(JoinPath(dir, Sha256Hex(input)), std::ios::binary);
    out << input;
    Require(out.good(), "an input can be written");
  }
}

struct Arguments {
  uint64_t changes = 200, seed = 1;
  std::string write, target;
  std::vector<std::string> files;
};

Arguments Parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool option = word.rfind("--", 0) == 0;
    Require(!option || i + 1 < argc, "every option has a value");
    if (word == "--changes") {
      out.changes = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--seed") {
      out.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--write") {
      out.write = argv[++i];
    } else if (out.target.empty()) {
      Require(!option, "options are --changes, --seed and --write");
      out.target = word;
    } else {
      out.files.push_back(word);
    }
  }
  return out;
}

int Main(const Arguments& arguments) {
#ifndef ASSAY_SANITIZED  // whose shadow memory takes terabytes of addresses
  const rlimit limit{kAddressBytesMax, kAddressBytesMax};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    ::signal(number, LeaveInput);
  size_t ran = 0, targets = 0;
  for (const NamedTarget& target : Targets()) {
    if (!arguments.target.empty() && arguments.target != target.name) continue;
    ++targets;
    std::vector<std::string> inputs;
    for (const std::string& file : arguments.files) inputs.push_back(Bytes(file));
    if (arguments.files.empty()) inputs = InputsOf(target.name);
    Require(!inputs.empty(), "every target has inputs");
    if (!arguments.write.empty()) {
      Write(JoinPath(arguments.write, target.name), inputs);
      continue;
    }
    for (const std::string& input : inputs) Run(target, input);
    Changer changer(arguments.seed);
    const uint64_t changes = arguments.files.empty() ? arguments.changes : 0;
    for (uint64_t i = 0; i < changes; ++i) Run(target, changer.Change(inputs));
    ran += inputs.size() + changes;
    std::cout << target.name << ": " << inputs.size() << " inputs, " << changes << " changes"
              << std::endl;
  }
  Require(targets > 0, "the target exists");
  std::cout << targets << " targets, " << ran << " executions, 0 crashes" << std::endl;
  return 0;
}

}  // namespace
}  // namespace assay::fuzz

int main(int argc, char** argv) { return assay::fuzz::Main(assay::fuzz::Parse(argc, argv)); }
