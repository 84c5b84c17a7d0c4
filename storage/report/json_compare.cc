#include "storage/report/json_compare.h"

namespace assay {
namespace {

constexpr size_t kShownMax = 80;

std::string Show(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShownMax) text.replace(kShownMax, std::string::npos, "...");
  return text;
}

std::string Named(const std::string& path, const std::string& what) {
  return (path.empty() ? std::string("document") : path) + ": " + what;
}

std::string Member(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

std::string ObjectDifference(const Json& a, const Json& b, const std::string& path) {
  for (const auto& [key, value] : a.items()) {
    const auto other = b.find(key);
    if (other == b.end()) return Named(Member(path, key), "present only on one side");
    std::string difference = FirstDifference(value, *other, Member(path, key));
    if (!difference.empty()) return difference;
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) return Named(Member(path, key), "present only on one side");
  }
  return "";
}

}  // namespace

std::string FirstDifference(const Json& a, const Json& b, const std::string& path) {
  if (a.is_object() && b.is_object()) return ObjectDifference(a, b, path);
  if (a.is_array() && b.is_array()) {
    if (a.size() != b.size()) {
      return Named(path,
                   std::to_string(a.size()) + " against " + std::to_string(b.size()) + " elements");
    }
    for (size_t i = 0; i < a.size(); ++i) {
      std::string difference = FirstDifference(a[i], b[i], path + "[" + std::to_string(i) + "]");
      if (!difference.empty()) return difference;
    }
    return "";
  }
  return a == b ? "" : Named(path, Show(a) + " against " + Show(b));
}

}  // namespace assay
