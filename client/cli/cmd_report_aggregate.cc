// assay report aggregate: published shard reports of one candidate welded into one receipt, and
// receipts of several candidates compared.

#include <chrono>
#include <memory>

#include "client/cli/published_commands.h"
#include "client/cli/published_files.h"
#include "client/cli/tables.h"
#include "fmt/format.h"
#include "storage/base/atomic_file.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/published_schema.h"
#include "storage/report/published_cumulative.h"

namespace assay {
namespace {

constexpr char kTool[] = "assay report aggregate";

struct AggregateCommand {
  std::vector<std::string> reports, audits;
  std::string suite, suite_name, shards, candidate, label, out, like;
  int64_t shard_size = 512;
  int64_t samples = 10000, seed = 1;
  double tolerance = 1e-6;
  bool no_rows = false, allow_no_tail = false;
};

absl::StatusOr<AggregateOptions> OptionsOf(const AggregateCommand& command, const Json& like) {
  AggregateOptions options;
  if (!like.is_null()) {
    ASSAY_ASSIGN_OR_RETURN(options, AggregateOptionsOf(like, command.like));
    return options;
  }
  options.parent_path = command.suite_name.empty() ? command.suite : command.suite_name;
  options.shard_size = command.shard_size;
  ASSAY_ASSIGN_OR_RETURN(options.shards, ParseShardList(command.shards));
  options.samples = static_cast<uint32_t>(command.samples);
  options.seed = static_cast<uint64_t>(command.seed);
  options.tolerance = command.tolerance;
  options.candidate = command.candidate;
  options.label = command.label;
  options.tool = kTool;
  options.generated_unix = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  options.rows = !command.no_rows;
  options.allow_no_tail = command.allow_no_tail;
  return options;
}

std::string Nats(const Json& value) {
  return value.is_number() ? fmt::format("{:.6g}", value.get<double>()) : "-";
}

std::string TailText(const Json& tail) {
  if (tail.is_null()) return "Tail       none: the reports have no histograms\n";
  std::string text;
  for (const auto& [name, row] : tail.at("quantiles").items()) {
    text += fmt::format("{:<10} {} to {} nats, about {}\n", name, Nats(row.at("lower")),
                        Nats(row.at("upper")), Nats(row.at("estimate")));
  }
  for (const Json& row : tail.at("exceedance")) {
    text += fmt::format("> {:<8} {} positions ({:.4f} %)\n", Nats(row.at("threshold")),
                        row.at("positions").dump(), 100 * row.at("fraction").get<double>());
  }
  return text;
}

std::string ReceiptText(const Json& receipt, const Json& disclosures) {
  const Json& interval = receipt.at("context_bootstrap");
  const int64_t clusters = receipt.at("source_clusters").get<int64_t>();
  std::string text = fmt::format(
      "{}: {} reports, {} contexts, {} positions, {} documents\n"
      "Mean KLD   {} nats over positions, {} over contexts, 95 % [{}, {}]\n"
      "Max KLD    {} nats; mean JSD {} bits; same top {:.4f} %\n",
      receipt.at("candidate").get<std::string>(), receipt.at("reports").dump(),
      receipt.at("contexts").dump(), receipt.at("scored_positions").dump(), clusters,
      Nats(receipt.at("token_mean_kld")), Nats(receipt.at("context_macro_mean_kld")),
      Nats(interval.at("ci95_low")), Nats(interval.at("ci95_high")), Nats(receipt.at("max_kld")),
      Nats(receipt.at("mean_jsd_bits")), 100 * receipt.at("top1_agreement").get<double>());
  if (clusters < static_cast<int64_t>(kBootstrapClustersMin)) {
    text += fmt::format(
        "           of {} documents only: the interval is narrower than it should be\n", clusters);
  }
  text += TailText(receipt.at("tail"));
  for (const Json& row : disclosures) {
    text += fmt::format("Disclosed  {}: {}\n", row.at("about").get<std::string>(),
                        row.at("text").get<std::string>());
  }
  return text;
}

// Without its rows, which go to the file `out` as they are written; "" = nowhere.
absl::StatusOr<Json> WriteReceipt(const std::string& out, const AggregateProse& prose,
                                  PublishedAggregator* aggregator) {
  if (out.empty()) {
    return aggregator->Write(prose, [](std::string_view) { return absl::OkStatus(); });
  }
  std::unique_ptr<AtomicFile> file;
  ASSAY_ASSIGN_OR_RETURN(const Json receipt,
                         aggregator->Write(prose, [&](std::string_view bytes) -> absl::Status {
                           if (file == nullptr) {
                             ASSAY_ASSIGN_OR_RETURN(file, AtomicFile::Create(out));
                           }
                           return file->Append(bytes);
                         }));
  ASSAY_RETURN_IF_ERROR(file->Commit());
  return receipt;
}

absl::StatusOr<int> RunAggregate(const AggregateCommand& command, CliContext& context) {
  Json like;
  if (!command.like.empty()) {
    ASSAY_ASSIGN_OR_RETURN(like, ReadJsonFile(command.like, kPublishedBytesMax));
  }
  ASSAY_ASSIGN_OR_RETURN(AggregateOptions options, OptionsOf(command, like));
  Suite suite;
  std::vector<Json> audits;
  if (!command.suite.empty()) {
    ASSAY_ASSIGN_OR_RETURN(suite, ReadSuiteManifestAt(command.suite));
    options.parent = &suite;
  } else if (!like.is_null() && !options.parent_path.empty()) {
    return PreconditionError("SUITE_MISSING", command.like +
                                                  ": its reports are views of a suite; give its "
                                                  "folder or manifest with --suite");
  }
  for (const std::string& path : command.audits) {
    ASSAY_ASSIGN_OR_RETURN(Json audit, ReadJsonFile(path, kPublishedBytesMax));
    if (!PublishedSchemaOf(audit).Is("near-duplicate-audit")) {
      return InvalidError("REPORT_INVALID", path + ": no audit of near duplicates");
    }
    audits.push_back(std::move(audit));
  }
  PublishedAggregator aggregator(options);
  for (const std::string& path : command.reports) {
    ASSAY_ASSIGN_OR_RETURN(const PublishedInput report, ReadPublishedInput(path));
    aggregator.Add(report);
  }
  AggregateProse prose = OwnAggregateProse(aggregator.has_tail());
  if (!like.is_null()) {
    ASSAY_ASSIGN_OR_RETURN(prose, AggregateProseOf(like, command.like));
  }
  Json receipt;
  if (context.json) {
    // All of it is printed, so it is made whole, once, and the file is written from that.
    ASSAY_ASSIGN_OR_RETURN(receipt, aggregator.Finish(prose));
    if (!command.out.empty()) {
      ASSAY_RETURN_IF_ERROR(WriteFileAtomic(command.out, PythonPrettyJson(receipt)));
    }
  } else {
    ASSAY_ASSIGN_OR_RETURN(receipt, WriteReceipt(command.out, prose, &aggregator));
  }
  const Json disclosures = SuiteDisclosures(suite.manifest, audits);
  context.PrintJson({{"receipt", receipt}, {"disclosures", disclosures}});
  context.Print(ReceiptText(receipt, disclosures));
  if (!command.out.empty()) context.Print(fmt::format("\nReceipt  {}", command.out));
  return kExitSuccess;
}

}  // namespace

void AddReportAggregateCommand(CLI::App& report, CliContext& context) {
  auto command = std::make_shared<AggregateCommand>();
  CLI::App* aggregate = AddCommand(
      report, context, "aggregate",
      "Weld published shard reports of one candidate into one receipt, everything computed again\n"
      "from their rows. Reports that do not belong together, a shard that is missing or there\n"
      "twice: refused, with every reason.",
      "  assay report aggregate shard-*/report-k5.json --suite suite --shards 0-9 --out k5.json\n"
      "  assay report aggregate shard-*/report-k5.json --suite suite --like published-k5.json\n");
  aggregate->add_option("REPORT", command->reports, "Shard reports, in any order")->required();
  aggregate->add_option("--suite", command->suite,
                        "Folder or manifest of the suite whose shards they are");
  aggregate->add_option("--suite-name", command->suite_name,
                        "What the receipt calls the suite's folder; default: as given");
  aggregate->add_option("--shards", command->shards,
                        "Exactly these must be there, such as 0-9; default: 0 to the last");
  aggregate
      ->add_option("--shard-size", command->shard_size, "Contexts of a shard; 0: not looked at")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  aggregate->add_option("--candidate", command->candidate,
                        "Name in the receipt; default: the folder of the candidate's model");
  aggregate->add_option("--label", command->label, "Free text in the receipt");
  aggregate
      ->add_option("--near-duplicates", command->audits,
                   "Audits of the suite's documents, shown beside the figures")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  aggregate->add_option("--like", command->like,
                        "A published receipt: take its options, time and sentences, so that the "
                        "same reports give the same bytes");
  aggregate->add_option("--samples", command->samples, "Resamples of the interval")
      ->check(CLI::Range(40, 1'000'000))
      ->capture_default_str();
  aggregate->add_option("--seed", command->seed, "Seed of the interval")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53))
      ->capture_default_str();
  aggregate
      ->add_option("--tolerance", command->tolerance,
                   "Of a report's headline against its rows, relative")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  aggregate->add_flag("--no-rows", command->no_rows, "Leave the rows out of the receipt");
  aggregate->add_flag("--allow-legacy-no-tail", command->allow_no_tail,
                      "Accept reports of the first generation, which have no histogram");
  aggregate->add_option("--out", command->out, "File for the receipt");
  OnRun(aggregate, context, [command, &context] { return RunAggregate(*command, context); });
}

}  // namespace assay
