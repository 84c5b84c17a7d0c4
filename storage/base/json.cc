#include "storage/base/json.h"

#include <set>
#include <vector>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

// Sees every token before the document is built; refuses duplicates and deep nesting without
// recursion.
class StrictChecker : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t value, const string_t& text) override {
    if (std::isfinite(value)) return true;
    return Fail("number " + text.substr(0, 40) + " does not fit in a double");
  }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Push(true); }
  bool end_object() override { return Pop(); }
  bool start_array(std::size_t) override { return Push(false); }
  bool end_array() override { return Pop(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second)
      return Fail("key \"" + name.substr(0, 80) + "\" appears twice in one object");
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    std::string what = error.what();
    if (const size_t colon = what.find("] "); colon != std::string::npos)
      what = what.substr(colon + 2);
    return Fail("not valid JSON at byte " + std::to_string(position) + ": " + what.substr(0, 200));
  }

  const std::string& failure() const { return failure_; }

 private:
  bool Push(bool) {
    keys_.emplace_back();
    if (keys_.size() > static_cast<size_t>(kJsonDepthMax)) {
      return Fail("nested deeper than " + std::to_string(kJsonDepthMax) + " levels");
    }
    return true;
  }
  bool Pop() {
    keys_.pop_back();
    return true;
  }
  bool Fail(std::string why) {
    failure_ = std::move(why);
    return false;
  }

  std::vector<std::set<std::string>> keys_;
  std::string failure_;
};

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view name) {
  const std::string where(name);
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    return InvalidError("JSON_INVALID",
                        where + ": starts with a byte-order mark; save it as plain UTF-8");
  }
  StrictChecker checker;
  if (!Json::sax_parse(text.begin(), text.end(), &checker)) {
    return InvalidError("JSON_INVALID", where + ": " + checker.failure());
  }
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

absl::StatusOr<Json> ReadJsonFile(const std::string& path, uint64_t max_bytes) {
  ASSAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, max_bytes));
  return ParseJson(text, path);
}

}  // namespace assay
