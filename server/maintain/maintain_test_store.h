// A data folder for tests: tests/data/store-v1 (two runs, one sealed report), opened once by this
// build and closed, so that every table of it lies in a file of its own.

#ifndef ASSAY_SERVER_MAINTAIN_MAINTAIN_TEST_STORE_H_
#define ASSAY_SERVER_MAINTAIN_MAINTAIN_TEST_STORE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "server/engine/engine.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/db/catalogue.h"

namespace assay {

class TestStore {
 public:
  TestStore() {
    dir_ = "/tmp/assay_maintainXXXXXX";
    EXPECT_NE(::mkdtemp(dir_.data()), nullptr);
    const char* source = std::getenv("ASSAY_SOURCE_DIR");
    Shell("tar -xzf " + std::string(source == nullptr ? "." : source) +
          "/tests/data/store-v1.tar.gz -C " + dir_);
    EXPECT_NE(Open(), nullptr);
  }
  ~TestStore() { RemoveTree(dir_).IgnoreError(); }
  TestStore(const TestStore&) = delete;
  TestStore& operator=(const TestStore&) = delete;

  const std::string& dir() const { return dir_; }
  static EngineOptions OptionsOf(const std::string& dir) {
    EngineOptions options;
    options.data_dir = dir;
    options.min_free_bytes = 0;
    options.ballast_bytes = 0;
    options.tick_ms = 60'000;
    return options;
  }
  std::unique_ptr<Engine> Open() const {
    auto engine = Engine::Open(OptionsOf(dir_));
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }
  std::string ReasonOfOpen() const { return ReasonOf(Engine::Open(OptionsOf(dir_)).status()); }

  // The only sealed report and its receipt.
  ReportRow Report() const {
    return Open()->Read([](const State& s) { return s.reports.begin()->second; });
  }
  ReceiptRow Receipt() const {
    return Open()->Read([](const State& s) { return s.receipts.begin()->second; });
  }
  std::string BlobPath(const std::string& sha256) const {
    return dir_ + "/blobs/" + sha256.substr(0, 2) + "/" + sha256.substr(2, 2) + "/" + sha256;
  }
  // Takes a row out as a program with a mistake would: by the rules, so the chain stays whole.
  void Remove(const Row& row) const {
    const auto catalogue = Catalogue::Open({dir_, ""});
    ASSERT_TRUE(catalogue.ok()) << catalogue.status();
    ASSERT_TRUE((*catalogue)->Commit({}, {row}).ok());
  }
  static void Flip(const std::string& path, double where = 0.5) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at =
        static_cast<std::streamoff>(where * static_cast<double>(FileSize(path).value()));
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
    ASSERT_TRUE(file.good()) << path;
  }
  static void Shell(const std::string& command) {
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
  }

 private:
  std::string dir_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_MAINTAIN_MAINTAIN_TEST_STORE_H_
