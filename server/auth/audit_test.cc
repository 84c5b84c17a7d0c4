#include "server/auth/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "storage/base/files.h"

namespace assay {
namespace {

std::vector<Json> Lines(const std::string& path) {
  std::vector<Json> out;
  const std::string text = ReadFile(path, 1 << 24).value_or("");
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    out.push_back(ParseJson(text.substr(at, end - at), "line").value());
    at = end + 1;
  }
  return out;
}

TEST(Audit, LinesOfManyThreadsStayWholeAndQuotesDoNotForgeFields) {
  std::string dir = "/tmp/assay_auditXXXXXX";
  ASSERT_NE(::mkdtemp(dir.data()), nullptr);
  const std::string path = dir + "/audit.jsonl";
  const auto log = AuditLog::Open(path).value();
  const std::string hostile = "a\",\"role\":\"admin\"}\n{\xff";
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) log->Write({{"resource", hostile}, {"role", "reader"}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  log->Write({{"resource", std::string(1 << 16, 'x')}, {"role", "reader"}});
  const std::vector<Json> lines = Lines(path);
  ASSERT_EQ(lines.size(), 201u);
  for (const Json& line : lines) {
    EXPECT_EQ(line.at("role"), "reader");
    EXPECT_TRUE(line.contains("time"));
  }
  EXPECT_EQ(lines.back().at("resource"), "(too long)");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  // Moved away by logrotate: the next line begins a new file.
  ASSERT_EQ(std::rename(path.c_str(), (path + ".1").c_str()), 0);
  log->Write({{"role", "reader"}});
  EXPECT_EQ(Lines(path).size(), 1u);
  EXPECT_EQ(Lines(path + ".1").size(), 201u);
  EXPECT_EQ(log->lost(), 0u);
  EXPECT_TRUE(RemoveTree(dir).ok());
}

}  // namespace
}  // namespace assay
