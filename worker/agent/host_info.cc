#include "worker/agent/host_info.h"

#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <sstream>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "worker/group/group.h"

namespace assay {
namespace {

// "model name" of /proc/cpuinfo, or "".
std::string CpuName() {
  absl::StatusOr<std::string> text = ReadFile("/proc/cpuinfo", uint64_t{16} << 20);
  if (!text.ok()) return "";
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

}  // namespace

std::string HostName() {
  std::array<char, 256> buffer{};
  if (gethostname(buffer.data(), buffer.size() - 1) != 0) return "worker";
  std::string name(buffer.data());
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '-';
  }
  return name.empty() ? "worker" : name.substr(0, 64);
}

Json HostInfo(int tp, int threads_per_rank, const std::string& backend) {
  Json info;
  info["host"] = HostName();
  struct utsname system;
  if (uname(&system) == 0) {
    info["os"] = std::string(system.sysname) + " " + system.release;
    info["machine"] = system.machine;
  }
  info["cpu"] = CpuName();
  info["cpus"] = AffinityCpus();
  info["tp"] = tp;
  info["threads"] = threads_per_rank;
  info["backend"] = backend;
  return info;
}

std::string RandomHex() {
  std::array<uint8_t, 16> bytes{};
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = getrandom(bytes.data() + done, bytes.size() - done, 0);
    if (n > 0) done += static_cast<size_t>(n);
  }
  return HexOf(bytes);
}

}  // namespace assay
