#include "worker/replay/heads.h"

#include <algorithm>
#include <mutex>

#include "storage/base/macros.h"

namespace assay {
namespace {

std::string SliceKey(const Job& job, const ReplayHead& head, ReplayBackend backend) {
  if (head.cache_key.empty()) return "";
  return head.cache_key + "|" + std::to_string(job.columns) + "|" + std::to_string(job.own_begin) +
         "|" + std::to_string(job.own_end) + "|" + std::to_string(head.hidden) + "|" +
         std::string(ReplayBackendName(backend));
}

ScanResult ScanLeaves(const Job& job, const ReplayHead& head, ThreadPool& pool) {
  std::vector<ScanResult> parts(job.own.count());
  pool.Run(static_cast<int64_t>(parts.size()), [&](int64_t i, int) {
    const Leaf& leaf = job.leaves[job.own.first + i];
    parts[i] = ScanBf16(HeadRows(head, leaf.begin, leaf.end));
    if (head.release) head.release(HeadRows(head, leaf.begin, leaf.end));
  });
  ScanResult out;
  for (size_t i = 0; i < parts.size(); ++i) {
    out.max_abs = std::max(out.max_abs, parts[i].max_abs);
    if (out.non_finite < 0 && parts[i].non_finite >= 0) {
      const uint64_t before = job.leaves[job.own.first + i].begin - job.own_begin;
      out.non_finite = static_cast<int64_t>(before * head.hidden) + parts[i].non_finite;
    }
  }
  return out;
}

std::vector<bool> UsedHeads(const Job& job) {
  std::vector<bool> used(job.plan->heads.size());
  for (const Source& source : job.sources) {
    if (source.head) used[*source.head] = true;
  }
  return used;
}

}  // namespace

std::span<const uint8_t> HeadRows(const ReplayHead& head, uint64_t begin, uint64_t end) {
  return head.bytes.subspan(begin * head.hidden * 2, (end - begin) * head.hidden * 2);
}

absl::StatusOr<std::vector<std::shared_ptr<HeadSlice>>> HeadStore::Scan(const Job& job,
                                                                        ThreadPool& pool) {
  const std::vector<bool> used = UsedHeads(job);
  std::vector<std::shared_ptr<HeadSlice>> out(used.size());
  std::map<std::string, ScanResult> kept;
  for (size_t h = 0; h < used.size(); ++h) {
    if (!used[h]) continue;
    out[h] = std::make_shared<HeadSlice>();
    const std::string key = SliceKey(job, job.plan->heads[h], ReplayBackend::kAuto);
    const auto known = scans_.find(key);
    out[h]->scan = !key.empty() && known != scans_.end()
                       ? known->second
                       : ScanLeaves(job, job.plan->heads[h], pool);
    if (!key.empty()) kept[key] = out[h]->scan;
  }
  scans_ = std::move(kept);
  return out;
}

absl::Status HeadStore::Pack(const Job& job, ReplayBackend backend, ThreadPool& pool,
                             std::vector<std::shared_ptr<HeadSlice>>* slices) {
  std::map<std::string, std::shared_ptr<HeadSlice>> kept;
  for (size_t h = 0; h < slices->size(); ++h) {
    if ((*slices)[h] == nullptr) continue;
    const std::string key = SliceKey(job, job.plan->heads[h], backend);
    if (const auto known = packed_.find(key); !key.empty() && known != packed_.end()) {
      kept[key] = (*slices)[h] = known->second;
    }
  }
  packed_ = std::move(kept);  // frees what this plan does not use before more is packed
  for (size_t h = 0; h < slices->size(); ++h) {
    const std::shared_ptr<HeadSlice>& slice = (*slices)[h];
    if (slice == nullptr || !slice->leaves.empty() || job.own.count() == 0) continue;
    const ReplayHead& head = job.plan->heads[h];
    slice->leaves.resize(job.own.count());
    std::mutex mutex;
    absl::Status status;
    pool.Run(static_cast<int64_t>(job.own.count()), [&](int64_t i, int) {
      const Leaf& leaf = job.leaves[job.own.first + i];
      auto packed = PackedLeaf::Pack(HeadRows(head, leaf.begin, leaf.end), leaf.columns(),
                                     head.hidden, backend);
      if (head.release) head.release(HeadRows(head, leaf.begin, leaf.end));
      const std::lock_guard<std::mutex> lock(mutex);
      if (packed.ok()) {
        slice->leaves[i] = std::move(*packed);
      } else {
        status = packed.status();
      }
    });
    ASSAY_RETURN_IF_ERROR(status);
    const std::string key = SliceKey(job, head, backend);
    if (!key.empty()) packed_[key] = slice;
  }
  return absl::OkStatus();
}

}  // namespace assay
