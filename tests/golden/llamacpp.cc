// Kind "llamacpp": pairs of logits files with the answers of known-answer.json, and printouts of
// the tool.

#include <cmath>
#include <cstdio>

#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/llamacpp/block.h"
#include "storage/llamacpp/compare.h"
#include "tests/golden/golden.h"

namespace assay::golden {
namespace {

constexpr double kTolerance = 1e-12;  // of the README beside the files
constexpr double kToolTolerance = 1e-7;

std::string CheckValues(const Json& want, const std::vector<LogitsPairRow>& rows, const char* name,
                        double LogitsPairRow::*field) {
  if (!want.contains(name)) return "";
  for (size_t i = 0; i < rows.size(); ++i) {
    const double expected = want.at(name)[i].get<double>();
    if (std::fabs(rows[i].*field - expected) <= kTolerance) continue;
    char text[200];
    snprintf(text, sizeof text, "%s[%zu] is %.17g instead of %.17g", name, i, rows[i].*field,
             expected);
    return text;
  }
  return "";
}

// One pair of the index: digests, readings of two files, the bytes and printout of the tool where
// its raw logits are there.
class Pair {
 public:
  Pair(const Options& options, std::string name, const Json& json, Tally* tally)
      : options_(options), name_(std::move(name)), json_(json), tally_(tally) {}

  void Check() {
    const auto base = Open("base"), cand = Open("candidate");
    if (base == nullptr || cand == nullptr) return;
    CheckReadings(*base, *cand);
    CheckSelf(*base);
    if (!json_.at("files").contains("base_logits")) return;
    CheckBytes(*base, "base_logits");
    CheckBytes(*cand, "candidate_logits");
    CheckPrintout(*base);
  }

 private:
  std::string PathOf(const char* file) const {
    return JoinPath(options_.dir, json_.at("files").at(file).at("path").get<std::string>());
  }

  // Null where the files are not in the folder (skipped) or can't be read (failed).
  std::shared_ptr<const LlamacppLogits> Open(const char* file) {
    const std::string path = PathOf(file);
    if (!FileExists(path)) {
      tally_->Skip(name_ + "/" + file, path + " is not there");
      return nullptr;
    }
    const auto digest = Sha256File(path);
    if (!digest.ok() || *digest != json_.at("files").at(file).at("sha256").get<std::string>()) {
      tally_->Case(name_ + "/" + file, "the file has another digest than known-answer.json states");
      return nullptr;
    }
    const auto opened = LlamacppLogits::Open(path);
    tally_->Case(name_ + "/" + file, opened.ok() ? "" : Describe(opened.status()));
    return opened.ok() ? *opened : nullptr;
  }

  void CheckReadings(const LlamacppLogits& base, const LlamacppLogits& cand) {
    const auto rows = CompareLogitsFiles(base, cand, std::max(1, options_.threads));
    if (!rows.ok()) return tally_->Case(name_ + "/compare", Describe(rows.status()));
    const Json& want = json_.at("per_row");
    const std::pair<const char*, double LogitsPairRow::*> fields[] = {
        {"kl_renorm", &LogitsPairRow::kl_renorm},
        {"kl_reverse_renorm", &LogitsPairRow::kl_reverse_renorm},
        {"jsd_renorm_bits", &LogitsPairRow::jsd_renorm_bits},
        {"kl_lumped", &LogitsPairRow::kl_lumped},
        {"kl_skip16", &LogitsPairRow::kl_skip16},
        {"nll_base_decoded", &LogitsPairRow::nll_base},
        {"nll_cand_decoded", &LogitsPairRow::nll_cand}};
    for (const auto& [field, member] : fields) {
      tally_->Case(name_ + "/" + field, CheckValues(want, *rows, field, member));
    }
    std::string tops;
    for (size_t i = 0; i < rows->size(); ++i) {
      if ((*rows)[i].top1_base == want.at("argmax_base")[i].get<int32_t>() &&
          (*rows)[i].top1_cand == want.at("argmax_cand")[i].get<int32_t>()) {
        continue;
      }
      tops = "row " + std::to_string(i) + " differs";
    }
    tally_->Case(name_ + "/argmax", tops);
  }

  void CheckSelf(const LlamacppLogits& base) {
    const auto rows = CompareLogitsFiles(base, base, std::max(1, options_.threads));
    std::string problem = rows.ok() ? "" : Describe(rows.status());
    for (size_t i = 0; rows.ok() && i < rows->size(); ++i) {
      const LogitsPairRow& row = (*rows)[i];
      if (row.kl_renorm != 0 || row.jsd_renorm_bits != 0 || row.kl_reverse_renorm != 0) {
        problem = "row " + std::to_string(i) + " is not exactly 0";
      }
    }
    tally_->Case(name_ + "/self", problem);
  }

  void CheckBytes(const LlamacppLogits& file, const char* raw) {
    const auto logits = MappedFile::Open(PathOf(raw));
    if (!logits.ok()) return tally_->Skip(name_ + "/bytes of " + raw, Describe(logits.status()));
    const auto vocab = static_cast<size_t>(file.vocab_size());
    const auto written = MappedFile::Open(file.path());
    std::string problem;
    for (int64_t row = 0; row < file.rows() && problem.empty(); ++row) {
      const auto* at =
          reinterpret_cast<const float*>((*logits)->bytes().data()) + row * file.vocab_size();
      const std::string bytes = EncodeLlamacppRow({at, vocab});
      const size_t offset =
          (*written)->size() - static_cast<size_t>(file.rows() - row) * bytes.size();
      const auto want = (*written)->bytes().subspan(offset, bytes.size());
      if (!std::equal(want.begin(), want.end(), reinterpret_cast<const uint8_t*>(bytes.data()))) {
        problem = "row " + std::to_string(row) + " is coded otherwise";
      }
    }
    tally_->Case(name_ + "/bytes of " + raw, problem);
  }

  void CheckPrintout(const LlamacppLogits& base) {
    const auto rows =
        ToolRowsOfRaw(base, PathOf("candidate_logits"), std::max(1, options_.threads));
    if (!rows.ok()) return tally_->Case(name_ + "/tool", Describe(rows.status()));
    const Json& want = json_.at("per_row");
    std::string problem;
    for (size_t i = 0; i < rows->size() && problem.empty(); ++i) {
      const LlamacppToolRow& row = (*rows)[i];
      if (std::fabs(row.kl - want.at("kl_tool")[i].get<double>()) > kToolTolerance ||
          row.delta_p != static_cast<float>(want.at("dp_tool")[i].get<double>())) {
        problem = "row " + std::to_string(i) + " differs";
      }
    }
    tally_->Case(name_ + "/tool", problem);
    std::string candidate = BaseName(PathOf("candidate"));
    candidate = candidate.substr(5, candidate.size() - 9);  // cand-NAME.kld
    const std::string path = JoinPath(DirName(PathOf("base")), "printouts/" + candidate + ".txt");
    const auto text = ReadFile(path, uint64_t{1} << 20);
    if (!text.ok()) return tally_->Skip(name_ + "/printout", Describe(text.status()));
    const std::string chunks =
        LlamacppChunkLines(*rows, static_cast<size_t>(base.rows_per_chunk()));
    const std::string block = LlamacppClosingBlock(*rows);
    const bool found =
        text->find(chunks) != std::string::npos && text->find(block) != std::string::npos;
    tally_->Case(name_ + "/printout", found ? "" : path + " does not hold:\n" + chunks + block);
  }

  const Options& options_;
  const std::string name_;
  const Json& json_;
  Tally* tally_;
};

}  // namespace

int RunLlamacpp(const Options& options) {
  Tally tally;
  const auto index = ReadJsonFile(JoinPath(options.dir, "known-answer.json"));
  if (!index.ok()) {
    tally.Case("index", Describe(index.status()));
    return tally.Finish();
  }
  for (const auto& [name, pair] : index->at("pairs").items())
    Pair(options, name, pair, &tally).Check();
  return tally.Finish();
}

}  // namespace assay::golden
