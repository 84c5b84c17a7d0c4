#include "storage/base/json.h"

#include <cmath>
#include <unordered_set>
#include <vector>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

// Builds the document token by token; refuses duplicates and deep nesting without recursion. An
// ordered_json object searches all its keys for each new one, so members are collected here and
// handed over when their object ends: a header of a million tensors must not take hours.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (std::isfinite(value)) return Add(value);
    return Fail("number " + text.substr(0, 40) + " does not fit in a double");
  }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary values are no JSON"); }
  bool start_object(std::size_t) override { return Push(); }
  bool end_object() override {
    Frame frame = Pop();
    Json object = Json::object();
    auto& members = object.get_ref<Json::object_t&>();
    members.reserve(frame.values.size());
    for (size_t i = 0; i < frame.values.size(); ++i) {
      members.emplace_back(std::move(frame.names[i]), std::move(frame.values[i]));
    }
    return Add(std::move(object));
  }
  bool start_array(std::size_t) override { return Push(); }
  bool end_array() override {
    Json array = Json::array();
    array.get_ref<Json::array_t&>() = Pop().values;
    return Add(std::move(array));
  }
  bool key(string_t& name) override {
    if (!frames_.back().seen.insert(name).second)
      return Fail("key \"" + name.substr(0, 80) + "\" appears twice in one object");
    frames_.back().names.push_back(std::move(name));
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
  Json Take() { return std::move(root_); }

 private:
  // An object or array that has not ended; `names` and `seen` only for objects.
  struct Frame {
    std::vector<std::string> names;
    std::unordered_set<std::string> seen;
    std::vector<Json> values;
  };

  bool Push() {
    frames_.emplace_back();
    if (frames_.size() > static_cast<size_t>(kJsonDepthMax)) {
      return Fail("nested deeper than " + std::to_string(kJsonDepthMax) + " levels");
    }
    return true;
  }
  Frame Pop() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    return frame;
  }
  bool Add(Json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
    } else {
      frames_.back().values.push_back(std::move(value));
    }
    return true;
  }
  bool Fail(std::string why) {
    failure_ = std::move(why);
    return false;
  }

  std::vector<Frame> frames_;
  Json root_;
  std::string failure_;
};

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view name) {
  const std::string where(name);
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    return InvalidError("JSON_INVALID",
                        where + ": starts with a byte-order mark; save it as plain UTF-8");
  }
  // The lexer takes a NUL byte for the end of the text, whatever follows.
  if (text.find('\0') != std::string_view::npos) {
    return InvalidError("JSON_INVALID", where + ": holds a NUL byte, at byte " +
                                            std::to_string(text.find('\0')) +
                                            "; save it as plain UTF-8");
  }
  StrictBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return InvalidError("JSON_INVALID", where + ": " + builder.failure());
  }
  return builder.Take();
}

absl::StatusOr<Json> ReadJsonFile(const std::string& path, uint64_t max_bytes) {
  ASSAY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, max_bytes));
  return ParseJson(text, path);
}

}  // namespace assay
