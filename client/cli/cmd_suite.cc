// assay suite: look at a suite folder, or register it.

#include <map>
#include <memory>
#include <set>

#include "client/cli/artefact_commands.h"
#include "client/cli/commands.h"
#include "client/cli/interrupt.h"
#include "client/cli/session.h"
#include "client/cli/tables.h"
#include "client/lib/inputs.h"
#include "fmt/format.h"
#include "storage/base/macros.h"
#include "storage/format/suite.h"

namespace assay {
namespace {

struct SuiteCommand {
  SessionOptions session;
  std::string dir;
};

Json Inspect(const std::string& dir, const Suite& suite) {
  std::map<std::string, std::pair<int64_t, std::set<std::string>>> strata;
  std::map<std::string, int64_t> partitions;
  std::set<std::string> clusters;
  int64_t sentinels = 0;
  for (const SuiteContext& context : suite.contexts) {
    auto& stratum = strata[context.stratum];
    ++stratum.first;
    stratum.second.insert(context.source_cluster);
    clusters.insert(context.source_cluster);
    ++partitions[context.partition];
    if (context.sentinel) ++sentinels;
  }
  Json json;
  json["folder"] = dir;
  json["schema"] = suite.schema;
  json["name"] = "suites/" + suite.manifest_sha256;
  json["manifest_sha256"] = suite.manifest_sha256;
  json["suite_token_sha256"] = suite.suite_token_sha256;
  json["model"] = suite.model;
  json["contexts"] = suite.contexts.size();
  json["context_length"] = suite.context_length;
  json["vocab_size"] = suite.vocab_size;
  json["hidden_size"] = suite.hidden_size;
  json["source_clusters"] = clusters.size();
  json["sentinels"] = sentinels;
  json["strata"] = Json::array();
  for (const auto& [name, stratum] : strata) {
    json["strata"].push_back({{"stratum", name},
                              {"contexts", stratum.first},
                              {"source_clusters", stratum.second.size()}});
  }
  json["partitions"] = Json::array();
  for (const auto& [name, contexts] : partitions) {
    json["partitions"].push_back({{"partition", name}, {"contexts", contexts}});
  }
  return json;
}

absl::StatusOr<int> InspectSuite(const SuiteCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const Suite suite, ReadSuite(command.dir));
  const Json json = Inspect(command.dir, suite);
  context.PrintJson(json);
  std::string text = fmt::format(
      "{}: every digest is right\n  schema          {}\n  model           {}\n  identity        "
      "{}\n"
      "  tokens          {}\n  contexts        {} of {} tokens, {} sentinels\n  vocabulary      "
      "{}\n"
      "  source clusters {}\n",
      command.dir, suite.schema, suite.model, suite.manifest_sha256, suite.suite_token_sha256,
      suite.contexts.size(), suite.context_length, json["sentinels"].get<int64_t>(),
      suite.vocab_size > 0 ? std::to_string(suite.vocab_size) : "not stated",
      json["source_clusters"].get<size_t>());
  std::vector<std::vector<std::string>> rows;
  for (const Json& stratum : json["strata"]) {
    rows.push_back({stratum.value("stratum", ""), stratum["contexts"].dump(),
                    stratum["source_clusters"].dump()});
  }
  text += "\n" + TextTable({"STRATUM", "CONTEXTS", "CLUSTERS"}, rows);
  rows.clear();
  for (const Json& partition : json["partitions"]) {
    rows.push_back({partition.value("partition", ""), partition["contexts"].dump()});
  }
  context.Print(text + "\n" + TextTable({"PARTITION", "CONTEXTS"}, rows));
  return kExitSuccess;
}

absl::StatusOr<int> AddSuite(const SuiteCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const Suite suite, ReadSuite(command.dir));
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay suite add"));
  ASSAY_ASSIGN_OR_RETURN(const std::string name,
                         RegisterSuite(&session->client(), command.dir, suite,
                                       [&](std::string_view what, uint64_t done, uint64_t total) {
                                         context.progress().Update(what, "bytes", done, total);
                                         return !Interrupted();
                                       }));
  context.PrintJson(Json{{"name", name}});
  context.Print(name);
  return kExitSuccess;
}

absl::StatusOr<int> ListSuites(const SuiteCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto session,
                         Session::OpenToRead(command.session, "assay suite list"));
  ASSAY_ASSIGN_OR_RETURN(const Json suites, session->client().List("suites"));
  std::vector<std::vector<std::string>> rows;
  for (const Json& suite : suites) {
    rows.push_back({suite.value("name", ""), suite["contexts"].dump(),
                    suite["context_length"].dump(), suite.value("model", "")});
  }
  context.PrintJson(Json{{"suites", suites}});
  context.Print(TextTable({"SUITE", "CONTEXTS", "TOKENS", "MODEL"}, rows));
  return kExitSuccess;
}

}  // namespace

void AddSuiteCommand(CLI::App& app, CliContext& context) {
  CLI::App* suite = AddGroup(app, "suite", "Inspect, import, register and list suites",
                             "  assay suite inspect panel/suite\n"
                             "  assay suite add panel/suite --server coordinator:7070\n");
  auto command = std::make_shared<SuiteCommand>();
  CLI::App* inspect =
      AddCommand(*suite, context, "inspect", "Verify a suite folder and say what is in it",
                 "  assay suite inspect panel/suite\n");
  inspect->add_option("DIR", command->dir, "Suite folder")->required();
  OnRun(inspect, context, [command, &context] { return InspectSuite(*command, context); });
  CLI::App* add = AddCommand(*suite, context, "add", "Verify a suite folder and register it",
                             "  assay suite add panel/suite --server coordinator:7070\n");
  add->add_option("DIR", command->dir, "Suite folder")->required();
  AddSessionOptions(add, &command->session);
  OnRun(add, context, [command, &context] { return AddSuite(*command, context); });
  CLI::App* list = AddCommand(*suite, context, "list", "List registered suites",
                              "  assay suite list --server coordinator:7070\n");
  AddSessionOptions(list, &command->session);
  OnRun(list, context, [command, &context] { return ListSuites(*command, context); });
  AddSuiteFolderCommands(*suite, context);
  AddSuiteImportCommand(*suite, context);
}

}  // namespace assay
