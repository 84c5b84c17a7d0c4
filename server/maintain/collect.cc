#include "server/maintain/collect.h"

#include <limits>

#include "server/maintain/references.h"
#include "storage/base/killpoint.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

absl::Status Expire(Engine* engine, const CollectOptions& options, Collected* out) {
  ExpireRuns command;
  command.before_ms = engine->now().unix_ms - options.keep_runs_ms;
  const auto expired =
      engine->Read([&](const State& s) { return ExpiredRuns(s, command.before_ms); });
  for (const ExpiredRun& run : expired) {
    out->runs += run.whole ? 1 : 0;
    out->units += run.units.size();
    command.runs.push_back(run.id);
    if (!run.whole) continue;
    ASSAY_ASSIGN_OR_RETURN(
        auto events, engine->catalogue().Events(run.id, 0, std::numeric_limits<size_t>::max()));
    command.events.insert(command.events.end(), events.begin(), events.end());
  }
  if (options.dry_run || expired.empty()) return absl::OkStatus();
  return engine->Execute({"local", std::move(command)}).status;
}

}  // namespace

std::string Collected::ToText(bool dry_run) const {
  return std::string("gc: ") + (dry_run ? "would remove " : "removed ") + std::to_string(runs) +
         " runs, " + std::to_string(units) + " units, " + std::to_string(blobs) + " blobs of " +
         std::to_string(bytes) + " bytes, " + std::to_string(partials) + " unfinished uploads of " +
         std::to_string(partial_bytes) + " bytes\n";
}

absl::StatusOr<Collected> Collect(Engine* engine, const CollectOptions& options) {
  const std::lock_guard<std::mutex> one_at_a_time(engine->maintenance());
  Collected out;
  ASSAY_RETURN_IF_ERROR(Expire(engine, options, &out));
  AssayKillPoint("gc:expired");
  FileBlobStore& blobs = engine->blobs();
  ASSAY_ASSIGN_OR_RETURN(const References references, FindReferences(engine->catalogue(), blobs));
  if (!references.unreadable.empty()) {
    return PreconditionError("GC_REFUSED",
                             "the manifest of suites/" + references.unreadable.front() +
                                 " cannot be read, so what it names is not known and no blob is "
                                 "removed; upload the suite again (assay score does)");
  }
  const int64_t newest = engine->now().unix_ms - options.grace_ms;
  for (const BlobInfo& info : references.blobs) {
    if (references.named.count(info.sha256) != 0 || info.touched_ms >= newest) continue;
    if (!options.dry_run) {
      // Somebody may have asked for it since it was listed.
      ASSAY_ASSIGN_OR_RETURN(const bool removed, blobs.RemoveIfOld(info.sha256, newest));
      if (!removed) continue;
      AssayKillPoint("gc:removed");
    }
    ++out.blobs;
    out.bytes += info.bytes;
  }
  ASSAY_ASSIGN_OR_RETURN(const auto partials,
                         blobs.AbandonedPartials(options.grace_ms, !options.dry_run));
  out.partials = partials.files;
  out.partial_bytes = partials.bytes;
  return out;
}

}  // namespace assay
