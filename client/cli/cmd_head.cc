// assay head: language-model heads cut out of checkpoints, and their receipts.

#include <memory>
#include <optional>

#include "client/cli/artefact_commands.h"
#include "client/cli/gate_lines.h"
#include "client/cli/interrupt.h"
#include "client/cli/score_job.h"
#include "fmt/format.h"
#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/format/digest_cache.h"
#include "storage/format/model_spec.h"
#include "storage/published/head_receipt.h"
#include "worker/group/offline.h"
#include "worker/group/offline_heads.h"

namespace assay {
namespace {

constexpr uint64_t kReceiptMax = uint64_t{16} << 20;

struct HeadCommand {
  std::string model, file, tensor, out, receipt, against;
  std::string name = std::string(kPublishedHeadTensor);
};

// A head found in a model, with the processes and files that it took to find it.
struct FoundHead {
  std::unique_ptr<WorkFolder> work;
  std::unique_ptr<Group> group;
  OfflineHead head;
};

absl::StatusOr<std::unique_ptr<FoundHead>> FindHead(const std::string& model,
                                                    const std::string& beside) {
  auto out = std::make_unique<FoundHead>();
  ASSAY_ASSIGN_OR_RETURN(out->work, WorkFolder::Lock(beside));
  const std::string work = out->work->path();
  FoundHead* found = out.get();
  const GroupSource source = [found, work]() -> absl::StatusOr<Group*> {
    OfflineHooks hooks;
    hooks.interrupted = [] { return Interrupted(); };
    ASSAY_ASSIGN_OR_RETURN(found->group, StartOfflineGroup({}, /*capture=*/false, work, hooks));
    return found->group.get();
  };
  ASSAY_ASSIGN_OR_RETURN(out->head, PrepareHead({model, "none", std::nullopt}, source, work));
  return out;
}

// The head's bytes as the checkpoint stores them; as bf16 where it stores no plain tensor.
struct Stored {
  std::string file, tensor;
};
Stored StoredAs(const OfflineHead& head) {
  return head.stored_file.empty() ? Stored{head.file, head.tensor}
                                  : Stored{head.stored_file, head.stored_tensor};
}

absl::StatusOr<int> Extract(const HeadCommand& command, CliContext& context) {
  ASSAY_ASSIGN_OR_RETURN(const auto found, FindHead(command.model, DirName(command.out)));
  const OfflineHead& head = found->head;
  const Stored stored = StoredAs(head);
  ASSAY_RETURN_IF_ERROR(WriteHeadFile(stored.file, stored.tensor, command.out, command.name));
  ASSAY_ASSIGN_OR_RETURN(const HeadDigests digests, DigestHead(command.out, command.name));
  HeadSource source;
  source.tensor = head.stored_tensor;
  source.stored = head.identity.original_dtype;
  source.tied = head.identity.tied;
  std::string original = head.stored_file;
  if (original.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(command.model));
    if (FileExists(spec.path)) original = spec.path;
  }
  if (!original.empty()) {
    ASSAY_ASSIGN_OR_RETURN(const auto cache, DigestCache::Open(DigestCachePath()));
    context.progress().Begin("digest checkpoint file", "");
    ASSAY_ASSIGN_OR_RETURN(source.sha256, cache->FileSha256(original));
    context.progress().End();
    source.file = BaseName(original);
  }
  const Json receipt = HeadReceiptJson(BaseName(command.out), digests, source);
  ASSAY_RETURN_IF_ERROR(WriteFileAtomic(command.out + ".json", PythonPrettyJson(receipt) + "\n"));
  context.PrintJson(receipt);
  context.Print(fmt::format(
      "{}: {} [{}, {}] from {}{}{}\ncontent {}\nas bf16 {}\nreceipt {}.json", command.out,
      digests.dtype, digests.vocab, digests.hidden,
      source.tensor.empty() ? source.file : source.tensor,
      source.tied ? ", which is the embedding" : "",
      source.stored == digests.dtype ? ", bytes as stored" : ", decoded from " + source.stored,
      digests.tensor_content_sha256, digests.bf16_sha256, command.out));
  return kExitSuccess;
}

// The receipt that was named, or that lies beside the head.
absl::StatusOr<std::optional<std::string>> ReceiptBytes(const HeadCommand& command) {
  std::string named = command.receipt;
  const std::string folder = DirName(command.file);
  for (const std::string& path : {command.file + ".json", JoinPath(folder, "head.json"),
                                  JoinPath(folder, "head-extraction.json")}) {
    if (named.empty() && FileExists(path)) named = path;
  }
  if (named.empty()) return std::optional<std::string>();
  ASSAY_ASSIGN_OR_RETURN(std::string bytes, ReadFile(named, kReceiptMax));
  return std::optional<std::string>(std::move(bytes));
}

absl::StatusOr<int> Verify(const HeadCommand& command, CliContext& context) {
  if (!FileExists(command.file))
    return NotFoundError("HEAD_MISSING", command.file + " does not exist; give a safetensors file");
  ASSAY_ASSIGN_OR_RETURN(const std::optional<std::string> receipt, ReceiptBytes(command));
  std::optional<HeadDigests> other;
  std::unique_ptr<FoundHead> found;
  if (!command.against.empty()) {
    ASSAY_ASSIGN_OR_RETURN(found, FindHead(command.against, DirName(command.file)));
    const Stored stored = StoredAs(found->head);
    ASSAY_ASSIGN_OR_RETURN(other, DigestHead(stored.file, stored.tensor));
  }
  return PrintGates(command.file,
                    ExamineHead(command.file, command.tensor, receipt, other ? &*other : nullptr),
                    context);
}

}  // namespace

void AddHeadCommand(CLI::App& app, CliContext& context) {
  CLI::App* group = AddGroup(app, "head", "Cut heads out of checkpoints and check them",
                             "  assay head extract model-folder --out head.safetensors\n"
                             "  assay head verify head.safetensors --against model-folder\n");
  auto command = std::make_shared<HeadCommand>();
  CLI::App* extract = AddCommand(
      *group, context, "extract",
      "Write a model's head as one tensor, its bytes as the checkpoint stores them, and a receipt\n"
      "FILE.json that names both by digest. The head is found in sharded and prefixed "
      "checkpoints,\n"
      "and is the embedding of tied ones; one that is packed (GGUF, GPTQ, ...) is decoded to bf16.",
      "  assay head extract hf-folder --out head.safetensors\n"
      "  assay head extract model.gguf --out head.safetensors\n"
      "  assay head extract hf-folder:model.visual.lm_head.weight --out head.safetensors\n");
  extract->add_option("MODEL", command->model, "GGUF file, Hugging Face folder or FILE[:TENSOR]")
      ->required();
  extract->add_option("--out", command->out, "safetensors file to write")->required();
  extract->add_option("--tensor-name", command->name, "What the tensor is called in it")
      ->capture_default_str();
  OnRun(extract, context, [command, &context] { return Extract(*command, context); });
  CLI::App* verify = AddCommand(
      *group, context, "verify",
      "Check a head file and its receipt: one line for each gate and one verdict. The receipt is\n"
      "FILE.json, or head.json or head-extraction.json beside it. Exit code 5 when it is refused",
      "  assay head verify head.safetensors\n"
      "  assay head verify served/head.safetensors --against checkpoint-folder\n"
      "  assay head verify glm53-root/head/weight.safetensors --json\n");
  verify->add_option("FILE", command->file, "safetensors file")->required();
  verify->add_option("--tensor", command->tensor, "Its tensor (default: the usual names)");
  verify->add_option("--receipt", command->receipt, "Receipt of this project or of a publisher");
  verify->add_option("--against,--model", command->against,
                     "Another head, or the model that it was cut out of: must be the same");
  OnRun(verify, context, [command, &context] { return Verify(*command, context); });
}

}  // namespace assay
