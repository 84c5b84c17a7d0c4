// The lines under the tables.

#include <algorithm>

#include "storage/report/summary.h"
#include "storage/report/summary_cells.h"
#include "storage/report/summary_text.h"

namespace assay {
namespace {

// Two reports of different arithmetic were compared because somebody asked.
std::string NumericNote(const Json& comparison) {
  if (!comparison.contains("numeric_difference")) return "";
  std::string out = "; ARITHMETIC DIFFERS:";
  for (const Json& reason : comparison.at("numeric_difference")) {
    out += " " + reason.at("code").get<std::string>();
    if (reason.at("a").is_string() && reason.at("b").is_string()) {
      out +=
          " (" + reason.at("a").get<std::string>() + ", " + reason.at("b").get<std::string>() + ")";
    }
  }
  return out + "; part of this may be arithmetic";
}

void FileLines(const Json& candidate, std::vector<std::string>* out) {
  out->push_back(candidate.at("label").get<std::string>());
  out->push_back(std::string("  report   ") +
                 candidate.at("files").at("report").get<std::string>());
  const Json& receipt = candidate.at("receipt_id");
  out->push_back(std::string("  receipt  ") +
                 (receipt.is_null() ? "UNSEALED" : receipt.get<std::string>()));
  for (const auto& [head, folder] : candidate.at("files").at("positions").items()) {
    out->push_back(std::string("  arrays   ") + folder.get<std::string>());
  }
}

// With many candidates one line each: their folders all look alike.
void ShortFileLine(const Json& candidate, std::vector<std::string>* out) {
  const Json& receipt = candidate.at("receipt_id");
  out->push_back(candidate.at("label").get<std::string>() + "/  " +
                 (receipt.is_null() ? "UNSEALED" : "receipt " + receipt.get<std::string>()));
}

// A disclosure that several candidates share is said once.
void DisclosureLines(const std::vector<const Json*>& scored, std::vector<std::string>* out) {
  struct Said {
    std::string text, labels;
    size_t times = 0;
  };
  std::vector<Said> said;
  for (const Json* candidate : scored) {
    const std::string label = candidate->at("label").get<std::string>();
    for (const Json& disclosure : candidate->at("disclosures")) {
      const std::string text = disclosure.at("text").get<std::string>();
      auto same = std::find_if(said.begin(), said.end(),
                               [&](const Said& entry) { return entry.text == text; });
      if (same == said.end()) same = said.insert(said.end(), Said{text, "", 0});
      same->labels += (same->times++ == 0 ? "" : ", ") + label;
    }
  }
  for (const Said& entry : said) {
    const bool all = entry.times == scored.size() && scored.size() > kCandidatesInFull;
    out->push_back("Note (" + (all ? "all" : entry.labels) + "): " + entry.text);
  }
}

// Many comparisons at 95 % each: some find a difference where there is none.
void ManyPairsLines(const Json& summary, size_t candidates, std::vector<std::string>* out) {
  const size_t others = candidates - 1, pairs = candidates * others / 2;
  out->push_back(
      "Each interval is a 95 % interval of its own, and " + std::to_string(others) +
      " comparisons were made: of every 20 between equal candidates about one looks "
      "distinguishable by chance. \"yes\" holds also for all of them together (Bonferroni); \"yes "
      "(not among " +
      std::to_string(others) + ")\" holds only if this one comparison was meant from the start.");
  if (summary.at("versus").is_null()) {
    out->push_back(
        "The best one was chosen by the same numbers, which flatters it a little; name the "
        "candidate that you care about with --versus LABEL.");
  }
  out->push_back("All " + std::to_string(pairs) +
                 " pairs are in summary.json, every other figure in summary.md: assay report pair "
                 "A B shows one pair.");
}

}  // namespace

std::string PairText(const Json& pair) {
  const std::string name = pair.at("a").get<std::string>() + " minus " +
                           pair.at("b").get<std::string>() + " (" +
                           (pair.at("head") == "own" ? "as served" : "body only") + "): ";
  if (!pair.at("not_comparable").is_null()) {
    return name + "not comparable, " + pair.at("not_comparable").get<std::string>();
  }
  const Json& c = pair.at("comparison");
  const std::string distinguishable = DistinguishableCell(c);
  return name + NumberCell(c.at("difference_a_minus_b")) + " nats " +
         IntervalCell(c.at("bootstrap_difference")) +
         ", distinguishable: " + (distinguishable == "-" ? "not known" : distinguishable) +
         "; lower in " + std::to_string(c.at("a_wins").get<uint64_t>()) + ", higher in " +
         std::to_string(c.at("b_wins").get<uint64_t>()) + ", equal in " +
         std::to_string(c.at("ties").get<uint64_t>()) + " contexts" + NumericNote(c);
}

std::vector<std::string> SummaryNotes(const Json& summary) {
  std::vector<std::string> out;
  const std::vector<const Json*> scored = ScoredCandidates(summary);
  const bool many = scored.size() > kCandidatesInFull;
  if (many) {
    ManyPairsLines(summary, scored.size(), &out);
  } else {
    for (const Json& pair : summary.at("pairs")) out.push_back(PairText(pair));
  }
  if (!out.empty()) out.emplace_back();
  for (const Json& candidate : summary.at("candidates")) {
    const Json& failed = candidate.at("failed");
    if (failed.is_null()) continue;
    out.push_back(candidate.at("label").get<std::string>() + ": FAILED [" +
                  failed.at("reason").get<std::string>() + "] " +
                  failed.at("message").get<std::string>());
  }
  DisclosureLines(scored, &out);
  if (!out.empty() && !out.back().empty()) out.emplace_back();
  for (const Json* candidate : scored) {
    many ? ShortFileLine(*candidate, &out) : FileLines(*candidate, &out);
  }
  return out;
}

}  // namespace assay
