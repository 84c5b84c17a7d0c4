// Tar files: the bytes of GNU tar, and archives that must be refused.

#include "storage/base/tar.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <vector>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

std::string Write(const Files& files) {
  std::string out;
  for (const auto& [name, bytes] : files) {
    const auto header = TarHeader(name, bytes.size());
    EXPECT_TRUE(header.ok()) << header.status();
    out += *header + bytes + TarPadding(bytes.size());
  }
  return out + TarEnd();
}

absl::StatusOr<Files> Read(const std::string& bytes) {
  TarReader reader({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "x.tar");
  Files out;
  for (;;) {
    const auto entry = reader.Next();
    if (!entry.ok()) return entry.status();
    if (!*entry) return out;
    const auto& file = **entry;
    out.emplace_back(file.name, std::string(file.bytes.begin(), file.bytes.end()));
  }
}

const Files kFiles = {
    {"a/empty", ""},
    {"a/block", std::string(512, 'x')},
    {"a/odd", "seven b"},
    {"r/" + std::string(128, 'l') + "/positions/own/kl_ref_cand.f64", "eight by"}};

TEST(Tar, ReadsWhatItWrites) {
  const auto read = Read(Write(kFiles));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, kFiles);
  EXPECT_EQ(Write(kFiles), Write(kFiles));
}

// tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=0644 -b 1 of the same
// files writes the same bytes (but for the names of the owner, which are empty here).
TEST(Tar, OtherProgramsReadIt) {
  std::string pattern = testing::TempDir() + "/assay-tar-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::string dir = pattern;
  ASSERT_TRUE(WriteFile(dir + "/x.tar", Write(kFiles)).ok());
  const std::string command = "cd " + dir + " && tar xf x.tar 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  for (const auto& [name, bytes] : kFiles) {
    const auto got = ReadFile(dir + "/" + name, 1 << 20);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, bytes) << name;
  }
  EXPECT_TRUE(RemoveTree(dir).ok());
}

// Sets a byte range of the header at `at` and its sum again.
void Edit(std::string& tar, size_t at, size_t field, const std::string& text) {
  tar.replace(at + field, text.size(), text);
  tar.replace(at + 148, 8, "        ");
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>(tar[at + i]);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  tar.replace(at + 148, 8, std::string(digits) + std::string("\0 ", 2));
}

TEST(Tar, RefusesHostileArchives) {
  const std::string nul(1, '\0');
  struct Hostile {
    const char* what;
    std::function<void(std::string&)> edit;
  };
  const std::vector<Hostile> cases = {
      {"cut in a header", [](std::string& t) { t.resize(300); }},
      {"cut in a file", [](std::string& t) { t.resize(1200); }},
      {"no end", [](std::string& t) { t.resize(t.size() - 1024); }},
      {"half an end", [](std::string& t) { t.resize(t.size() - 512); }},
      {"bytes behind the end", [](std::string& t) { t += "x"; }},
      {"empty", [](std::string& t) { t.clear(); }},
      {"wrong sum", [](std::string& t) { t[0] = 'b'; }},
      {"absolute name", [&](std::string& t) { Edit(t, 0, 0, "/etc/pw" + nul); }},
      {"name that climbs", [&](std::string& t) { Edit(t, 0, 0, "../../x" + nul); }},
      {"prefix that climbs", [&](std::string& t) { Edit(t, 0, 345, ".." + nul); }},
      {"empty name", [&](std::string& t) { Edit(t, 0, 0, nul); }},
      {"symbolic link", [](std::string& t) { Edit(t, 0, 156, "2"); }},
      {"hard link", [](std::string& t) { Edit(t, 0, 156, "1"); }},
      {"device", [](std::string& t) { Edit(t, 0, 156, "3"); }},
      {"folder", [](std::string& t) { Edit(t, 0, 156, "5"); }},
      {"pax header", [](std::string& t) { Edit(t, 0, 156, "x"); }},
      {"GNU long name", [](std::string& t) { Edit(t, 0, 156, "L"); }},
      {"the same name twice", [&](std::string& t) { Edit(t, 0, 0, "a/block" + nul); }},
      {"names that differ in case", [&](std::string& t) { Edit(t, 0, 0, "A/BLOCK" + nul); }},
      {"8 GiB", [](std::string& t) { Edit(t, 0, 124, "77777777777"); }},
      {"a binary size", [](std::string& t) { Edit(t, 0, 124, "\x80"); }},
      {"a negative size", [](std::string& t) { Edit(t, 0, 124, "-0000000001"); }},
      {"bytes in the padding", [](std::string& t) { t[512 * 3 + 512 + 20] = 'x'; }},
  };
  for (const Hostile& hostile : cases) {
    std::string tar = Write(kFiles);
    hostile.edit(tar);
    EXPECT_EQ(ReasonOf(Read(tar).status()), "TAR_INVALID") << hostile.what;
  }
  for (const std::string& name : {std::string("../x"), std::string("/x"), std::string(300, 'x'),
                                  std::string("a/") + std::string(101, 'x')}) {
    EXPECT_EQ(ReasonOf(TarHeader(name, 0).status()), "TAR_INVALID") << name;
  }
  EXPECT_EQ(ReasonOf(TarHeader("x", uint64_t{1} << 33).status()), "TAR_INVALID");
}

}  // namespace
}  // namespace assay
