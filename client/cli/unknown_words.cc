#include "client/cli/unknown_words.h"

#include <algorithm>
#include <numeric>

#include "fmt/format.h"

namespace assay {
namespace {

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, substituted});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(now);
  }
  return last[b.size()];
}

std::string_view WithoutDashes(std::string_view word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::string Sentence(std::string_view what, std::string_view typed,
                     const std::vector<std::string>& known) {
  const std::string nearest = NearestWord(typed, known);
  const std::string sentence = fmt::format("there is no {} {}", what, typed);
  return nearest.empty() ? sentence : fmt::format("{}; did you mean {}?", sentence, nearest);
}

}  // namespace

std::string NearestWord(std::string_view typed, const std::vector<std::string>& known) {
  const std::string_view word = WithoutDashes(typed);
  std::string nearest;
  size_t best = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::string_view name = WithoutDashes(candidate);
    // A beginning of three letters or more counts as near: --cand, --ref; and so does a word that
    // goes on: --output for --out.
    const bool beginning = word.size() >= 3 && name.substr(0, word.size()) == word;
    const bool longer = name.size() >= 3 && word.substr(0, name.size()) == name;
    const size_t distance = beginning || longer ? 1 : EditDistance(word, name);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

namespace {

bool IsOption(const std::string& word) {
  return word.size() > 1 && word.front() == '-' && word != "--";
}

std::string DescribeUnknownOf(const CLI::App& command) {
  const std::vector<std::string> unplaced = command.remaining();
  if (unplaced.empty()) return "";
  const std::vector<std::string> commands = CommandNames(command);
  if (!commands.empty() && !IsOption(unplaced.front())) {
    return Sentence("command", unplaced.front(), commands);
  }
  // Other words may be the values of a misspelt option.
  const auto option = std::find_if(unplaced.begin(), unplaced.end(), IsOption);
  if (option != unplaced.end()) {
    return Sentence("option", option->substr(0, option->find('=')), OptionNames(command));
  }
  return fmt::format("\"{}\" is one argument too many", unplaced.front());
}

}  // namespace

std::string DescribeUnknown(const CLI::App& app) {
  const CLI::App* command = &app;
  for (;;) {
    const std::string unknown = DescribeUnknownOf(*command);
    if (!unknown.empty() || command->get_subcommands().empty()) return unknown;
    command = command->get_subcommands().front();
  }
}

}  // namespace assay
