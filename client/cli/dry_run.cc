#include "client/cli/dry_run.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "client/cli/dry_run_costs.h"
#include "client/cli/interrupt.h"
#include "client/cli/report_files.h"
#include "client/cli/score_operands.h"
#include "client/lib/data_dir.h"
#include "client/lib/kept_labels.h"
#include "client/lib/results.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/digest_cache.h"
#include "storage/report/candidate_files.h"
#include "storage/report/numeric_policy.h"
#include "storage/report/report.h"
#include "worker/capture/weights/checkpoint.h"

namespace assay {
namespace {

constexpr uint64_t kExecutionBytesMax = uint64_t{1} << 28;

// Everything that was found, in the order in which it was looked at.
struct Findings {
  Json problems = Json::array();  // {"subject","reason","message"}
  Json notes = Json::array();     // sentences

  void Add(const std::string& subject, const absl::Status& status) {
    if (status.ok()) return;
    problems.push_back(
        {{"subject", subject}, {"reason", ReasonOf(status)}, {"message", MessageOf(status)}});
  }
  void Note(const std::string& sentence) { notes.push_back(sentence); }
};

// One operand as a dry run sees it.
struct CheckedOperand {
  std::string name;
  LocalModel* model = nullptr;
  OperandCost cost;
  bool known = false;  // its shape was read
};

class Dry {
 public:
  Dry(const ScoreOptions& options, const DryRunOptions& dry, std::string out, ScoreInputs* inputs,
      CliContext& context)
      : options_(options), dry_(dry), out_(std::move(out)), inputs_(*inputs), context_(context) {}

  absl::StatusOr<int> Run();

 private:
  void CheckSuite();
  absl::Status CheckOperands();
  absl::Status CheckModel(DigestCache* digests, CheckedOperand* operand);
  void CheckHeads();
  void CompareShapes();
  void CheckOut();
  void CheckMachine(const RunCost& cost);
  RunShape Shape() const;
  void ReadEarlier();
  Json Document(const RunShape& shape, const RunCost& cost) const;
  void Print(const Json& document) const;

  const ScoreOptions& options_;
  const DryRunOptions& dry_;
  const std::string out_;
  ScoreInputs& inputs_;
  CliContext& context_;
  Findings findings_;
  bool suite_read_ = false;
  bool unchecked_ = false;  // an operand is known to a coordinator only
  std::vector<CheckedOperand> operands_;
  WorkRates rates_;
  double spread_ = kAssumedSpread;
  bool spread_measured_ = false;
};

void Dry::CheckSuite() {
  absl::StatusOr<Suite> suite = ReadSuite(options_.suite);
  findings_.Add("suite", suite.status());
  if (!suite.ok()) return;
  inputs_.suite = *std::move(suite);
  absl::StatusOr<std::vector<size_t>> selected = SelectContexts(inputs_.suite, options_.filter);
  findings_.Add("suite", selected.status());
  if (!selected.ok()) return;
  inputs_.limit = options_.metric.limit;
  inputs_.selected = LimitContexts(inputs_.suite, *selected, inputs_.limit);
  suite_read_ = true;
  if (options_.metric.score_from >= inputs_.suite.context_length - 1) {
    findings_.Add("suite", InvalidError("FILTER_EMPTY",
                                        "--score-from leaves no position of a "
                                        "context"));
  }
}

absl::Status Dry::CheckModel(DigestCache* digests, CheckedOperand* operand) {
  LocalModel& model = *operand->model;
  ASSAY_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                         Checkpoint::Open(model.path, model.transform));
  const ModelConfig& config = checkpoint->config();
  const ModelFacts facts = checkpoint->facts();
  operand->cost.body_weights = facts.body.params;
  operand->cost.embedding_weights = facts.embedding.params;
  operand->cost.layers = static_cast<uint64_t>(config.layers);
  operand->cost.attention_width = static_cast<uint64_t>(config.heads * config.head_dim);
  operand->cost.vocab = static_cast<uint64_t>(config.vocab);
  operand->cost.hidden = static_cast<uint64_t>(config.hidden);
  operand->cost.file_bytes = facts.file_bytes;
  operand->known = true;
  if (suite_read_) {
    findings_.Add(operand->name, CheckTokensBelow(inputs_.suite, config.vocab));
    if (config.max_positions > 0 && inputs_.suite.context_length > config.max_positions) {
      findings_.Note(fmt::format("{} was made for {} positions, the contexts have {} tokens",
                                 operand->name, config.max_positions,
                                 inputs_.suite.context_length));
    }
  }
  return DigestModel(digests, &model);
}

absl::Status Dry::CheckOperands() {
  ASSAY_ASSIGN_OR_RETURN(const auto digests, DigestCache::Open(DigestCachePath()));
  operands_.push_back({"reference", &inputs_.reference, {}, false});
  for (LabelledModel& candidate : inputs_.candidates) {
    operands_.push_back({candidate.label, &candidate.model, {}, false});
  }
  context_.progress().Begin("check inputs", "");
  for (CheckedOperand& operand : operands_) {
    if (Interrupted()) return InterruptedError("stopped while the inputs were checked");
    LocalModel& model = *operand.model;
    operand.cost.capture = model.is_capture;
    if (!model.remote_name.empty()) {
      findings_.Note(operand.name + " is known to the coordinator only and was not checked here");
      unchecked_ = true;
    } else if (!model.is_capture) {
      findings_.Add(operand.name, CheckModel(digests.get(), &operand));
    } else if (suite_read_) {
      findings_.Add(operand.name,
                    OpenScoreCapture(inputs_.suite, options_.filter, inputs_.limit, &model));
      operand.cost.vocab = static_cast<uint64_t>(inputs_.suite.vocab_size);
      const std::vector<CaptureRecord>& records = model.capture.manifest.records;
      if (!records.empty()) operand.cost.hidden = records.front().width;
    }
  }
  context_.progress().End();
  return absl::OkStatus();
}

// The heads of captures, read as the run would read them (that of a GGUF is decoded).
void Dry::CheckHeads() {
  const auto sound = [&](const CheckedOperand& operand) {
    return !operand.cost.capture || !operand.model->capture.manifest.records.empty();
  };
  if (std::none_of(operands_.begin(), operands_.end(),
                   [](const CheckedOperand& operand) { return operand.cost.capture; }) ||
      !std::all_of(operands_.begin(), operands_.end(), sound)) {
    return;
  }
  const std::string work = HeadFolder("");
  const absl::Status made = EnsureDirectory(work, 0700);
  findings_.Add("heads", made);
  if (!made.ok()) return;
  findings_.Add("reference", PrepareScoreHeads(options_.captured_heads, inputs_.reference,
                                               &inputs_.candidates, work)
                                 .status());
  for (const LabelledModel& candidate : inputs_.candidates) {
    if (candidate.model.is_capture) findings_.Add(candidate.label, candidate.status);
  }
  RemoveTree(work).IgnoreError();
}

// Candidates against the reference, and captures without a shape of their own.
void Dry::CompareShapes() {
  const CheckedOperand& reference = operands_.front();
  for (CheckedOperand& operand : operands_) {
    if (!operand.known && reference.known) {
      operand.cost.vocab = reference.cost.vocab;
      if (operand.cost.hidden == 0) operand.cost.hidden = reference.cost.hidden;
      continue;
    }
    operand.cost.same_head = operand.model->path == reference.model->path;
    if (!operand.known || !reference.known || operand.cost.vocab == reference.cost.vocab) continue;
    findings_.Add(operand.name,
                  InvalidError("SHAPE_MISMATCH",
                               fmt::format("its vocabulary has {} tokens, the reference's {}; they "
                                           "can only be compared over one vocabulary",
                                           operand.cost.vocab, reference.cost.vocab)));
  }
}

void Dry::CheckOut() {
  std::vector<std::string> labels;
  std::vector<LabelledIdentity> wanted;
  const auto identity = [](const LocalModel& model) {
    return model.manifest.files.empty() ? "" : model.manifest.Identity();
  };
  for (const LabelledModel& candidate : inputs_.candidates) {
    labels.push_back(candidate.label);
    wanted.push_back({candidate.label, identity(candidate.model), identity(inputs_.reference)});
  }
  findings_.Add("output", CheckOutFolder(out_, labels));
  findings_.Add("output", CheckOutPolicy(out_, options_.policy, options_.backend));
  if (suite_read_) {
    findings_.Add("output", CheckOutSuite(out_, inputs_.suite.suite_token_sha256));
  }
  findings_.Add("output", RefuseChangedLabels(
                              out_, FindChangedLabels(out_, wanted, PartOf(options_, inputs_))));
}

// MemAvailable of /proc/meminfo in bytes; 0 where it is not told.
uint64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(13)) * 1024;
  }
  return 0;
}

std::string ExistingFolder(std::string path) {
  while (!IsDirectory(path) && path != "/" && path != ".") path = DirName(path);
  return path;
}

void Dry::CheckMachine(const RunCost& cost) {
  if (!options_.session.server.empty()) {
    findings_.Note("disk and memory are those of the coordinator's workers and were not checked");
    return;
  }
  const absl::StatusOr<std::string> data_dir = ResolveDataDir(options_.session.data);
  findings_.Add("disk", data_dir.status());
  if (data_dir.ok() && suite_read_) findings_.Add("disk", CheckDiskSpace(inputs_, *data_dir));
  const absl::StatusOr<uint64_t> free = FreeBytes(ExistingFolder(out_));
  if (free.ok() && *free < cost.result_bytes / 2) {
    findings_.Add(
        "disk", ExhaustedError("DISK_LOW",
                               fmt::format("{} has {} free, the results need {}", out_,
                                           HumanBytes(*free), HumanBytes(cost.result_bytes / 2))));
  }
  const auto processes = static_cast<uint64_t>(options_.session.tp * options_.session.workers);
  const uint64_t available = AvailableMemory(), needed = processes * cost.rank_memory();
  if (available > 0 && needed > available) {
    findings_.Add("memory",
                  ExhaustedError("MEMORY_LOW",
                                 fmt::format("{} rank{} of {} need {}, {} are available; use fewer "
                                             "workers, or a machine with more",
                                             processes, processes == 1 ? "" : "s",
                                             HumanBytes(cost.rank_memory()), HumanBytes(needed),
                                             HumanBytes(available))));
  }
}

RunShape Dry::Shape() const {
  RunShape shape;
  for (const CheckedOperand& operand : operands_) shape.operands.push_back(operand.cost);
  std::set<std::string> documents;
  for (const size_t i : inputs_.selected) {
    const SuiteContext& context = inputs_.suite.contexts[i];
    documents.insert(context.source_cluster);
    shape.sentinels += context.sentinel ? 1 : 0;
  }
  shape.contexts = inputs_.selected.size();
  shape.documents = documents.size();
  shape.context_length = static_cast<uint64_t>(inputs_.suite.context_length);
  const int64_t scored = inputs_.suite.context_length - 1 - options_.metric.score_from;
  shape.scored_per_context = static_cast<uint64_t>(std::max<int64_t>(scored, 0));
  const auto asked = [&](const char* head) {
    return options_.heads.empty() ||
           std::find(options_.heads.begin(), options_.heads.end(), head) != options_.heads.end();
  };
  shape.own = asked("own");
  shape.shared = asked("shared");
  shape.ranks = static_cast<uint64_t>(options_.session.tp);
  shape.workers = static_cast<uint64_t>(options_.session.workers);
  return shape;
}

// Rates and the spread between documents of an earlier result.
void Dry::ReadEarlier() {
  if (dry_.rate > 0) rates_ = {dry_.rate * 1e9, dry_.rate * 1e9, ""};
  const std::string from = dry_.rate_from.empty() ? out_ : dry_.rate_from;
  if (!IsDirectory(from)) {
    if (!dry_.rate_from.empty()) findings_.Note(from + " of --rate-from is no folder");
    return;
  }
  const absl::StatusOr<std::vector<NamedResult>> results = ReadLocalResults(from);
  if (!results.ok()) return;
  std::vector<Json> executions;
  for (const NamedResult& result : *results) {
    if (!result.candidate.failed_reason.empty()) continue;
    const absl::StatusOr<Json> execution =
        ReadJsonFile(JoinPath(result.folder, kExecutionFile), kExecutionBytesMax);
    if (execution.ok()) executions.push_back(*execution);
    for (const auto& [head, entry] : result.candidate.report.at("heads").items()) {
      const std::optional<double> spread = SpreadOf(entry);
      if (!spread) continue;
      spread_ = spread_measured_ ? std::max(spread_, *spread) : *spread;
      spread_measured_ = true;
    }
  }
  if (dry_.rate <= 0) rates_ = RatesOf(executions);
}

Json Dry::Document(const RunShape& shape, const RunCost& cost) const {
  Json json;
  json["problems"] = findings_.problems;
  json["notes"] = findings_.notes;
  json["contexts"] = shape.contexts;
  json["positions"] = shape.contexts * shape.scored_per_context;
  json["documents"] = shape.documents;
  json["capture_multiply_adds"] = cost.capture_work;
  json["replay_multiply_adds"] = cost.replay_work;
  json["read_bytes"] = cost.read_bytes;
  json["capture_bytes"] = cost.capture_bytes;
  json["result_bytes"] = cost.result_bytes;
  json["capture_memory_per_rank"] = cost.capture_memory;
  json["replay_memory_per_rank"] = cost.replay_memory;
  const std::optional<double> seconds = SecondsOf(cost, rates_, shape.workers);
  json["seconds"] = seconds ? Json(*seconds) : Json(nullptr);
  json["rate_capture"] = rates_.capture > 0 ? Json(rates_.capture) : Json(nullptr);
  json["rate_replay"] = rates_.replay > 0 ? Json(rates_.replay) : Json(nullptr);
  json["rate_measured_on"] = rates_.cpu.empty() ? Json(nullptr) : Json(rates_.cpu);
  const std::optional<double> share = ResolvableShare(spread_, shape.documents);
  json["resolvable_share_of_mean_kld"] = share ? Json(*share) : Json(nullptr);
  json["spread_between_documents"] = spread_;
  json["spread_measured"] = spread_measured_;
  return json;
}

void Dry::Print(const Json& d) const {
  const auto bytes = [&](const char* key) { return HumanBytes(d.at(key).get<uint64_t>()); };
  const auto giga = [&](const char* key) { return d.at(key).get<double>() / 1e9; };
  std::string text;
  for (const Json& problem : d.at("problems")) {
    text += fmt::format("PROBLEM  {} [{}]: {}\n", problem.at("subject").get<std::string>(),
                        problem.at("reason").get<std::string>(),
                        problem.at("message").get<std::string>());
  }
  for (const Json& note : d.at("notes")) text += "Note     " + note.get<std::string>() + "\n";
  if (!suite_read_) {
    context_.Print(text);
    return;
  }
  text += fmt::format("Would score  {}\n", DescribeRun(inputs_));
  text += fmt::format("Positions    {} in {} contexts of {} documents\n",
                      d.at("positions").get<uint64_t>(), d.at("contexts").get<uint64_t>(),
                      d.at("documents").get<uint64_t>());
  text += fmt::format(
      "Work         {:.4g} billion multiply-adds to capture, {:.4g} to compare (at "
      "most)\n",
      giga("capture_multiply_adds"), giga("replay_multiply_adds"));
  if (d.at("seconds").is_null()) {
    text +=
        "Time         not known: give --rate-from DIR, the --out of an earlier run on such a "
        "machine,\n             or --rate G, billions of multiply-adds per second\n";
  } else {
    text += fmt::format(
        "Time         about {}, at {:.4g} (capture) and {:.4g} (compare) billion multiply-adds a "
        "second,\n             {}\n",
        HumanDuration(static_cast<int64_t>(std::ceil(d.at("seconds").get<double>()))),
        rates_.capture / 1e9, rates_.replay / 1e9,
        d.at("rate_measured_on").is_null()
            ? std::string("as stated with --rate")
            : "as an earlier run measured on " + d.at("rate_measured_on").get<std::string>());
  }
  text += fmt::format("Reads        {} of models (to digest, unless remembered, and to load)\n",
                      bytes("read_bytes"));
  text += fmt::format("Writes       {} of captures, {} of results (kept twice: store and --out)\n",
                      bytes("capture_bytes"), bytes("result_bytes"));
  text += fmt::format("Memory       {} a rank to capture, {} to compare; {} rank{}\n",
                      bytes("capture_memory_per_rank"), bytes("replay_memory_per_rank"),
                      options_.session.tp * options_.session.workers,
                      options_.session.tp * options_.session.workers == 1 ? "" : "s");
  const Json& share = d.at("resolvable_share_of_mean_kld");
  if (share.is_null()) {
    text += fmt::format(
        "Resolves     nothing for certain: {} documents give no interval, 8 are "
        "needed\n",
        d.at("documents").get<uint64_t>());
  } else {
    text += fmt::format(
        "Resolves     a difference of about {:.2g} % of a Mean KLD: 1.96 x {:.2g} / sqrt({} "
        "documents), where\n             {:.2g} is the spread of documents' KLD around their mean, "
        "{}\n",
        100 * share.get<double>(), d.at("spread_between_documents").get<double>(),
        d.at("documents").get<uint64_t>(), d.at("spread_between_documents").get<double>(),
        spread_measured_ ? "as the earlier result has it"
                         : "assumed (0.2 to 0.4 is usual for plain quantization)");
  }
  context_.Print(text);
}

absl::StatusOr<int> Dry::Run() {
  CheckSuite();
  ASSAY_RETURN_IF_ERROR(CheckOperands());
  CheckHeads();
  CompareShapes();
  CheckOut();
  ReadEarlier();
  const RunShape shape = Shape();
  const RunCost cost = CostOf(shape);
  CheckMachine(cost);
  const Json document = Document(shape, cost);
  context_.PrintJson(document);
  Print(document);
  const size_t problems = findings_.problems.size();
  const std::string good = unchecked_ ? "Nothing was found in what could be checked here."
                                      : "Nothing was found that would stop it.";
  context_.Print(problems == 0 ? good
                               : fmt::format("{} problem{}; nothing was started.", problems,
                                             problems == 1 ? "" : "s"));
  return problems == 0 ? kExitSuccess : kExitRefusedInput;
}

}  // namespace

void AddDryRunOptions(CLI::App* command, DryRunOptions* options) {
  command->add_flag("--dry-run", options->asked,
                    "Check every input and say what the run would take (time, bytes, memory, the "
                    "smallest difference it can resolve), without running it");
  command->add_option("--rate-from", options->rate_from,
                      "With --dry-run: --out folder of an earlier run on such a machine, whose "
                      "rates are used; default: --out, when it holds one");
  command
      ->add_option("--rate", options->rate,
                   "With --dry-run: billions of multiply-adds per second of one worker")
      ->check(CLI::PositiveNumber);
}

absl::StatusOr<int> DryRun(const ScoreOptions& options, const DryRunOptions& dry,
                           const std::string& out, ScoreInputs inputs, CliContext& context) {
  return Dry(options, dry, out, &inputs, context).Run();
}

}  // namespace assay
