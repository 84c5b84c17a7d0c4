// Reading the shard reports of an aggregate: what they share, what they cover.

#include <algorithm>
#include <map>
#include <set>

#include "storage/base/digest.h"
#include "storage/base/status.h"
#include "storage/report/comparability.h"
#include "storage/report/published_cumulative.h"

namespace assay {
namespace {

constexpr size_t kFaultsShown = 20;

}  // namespace

PublishedAggregator::PublishedAggregator(AggregateOptions options) : options_(std::move(options)) {
  if (options_.parent == nullptr) return;
  for (size_t i = 0; i < options_.parent->contexts.size(); ++i) {
    order_[options_.parent->contexts[i].index] = i;
  }
}

void PublishedAggregator::Fault(const std::string& reason, const std::string& why) {
  faults_.emplace_back(reason, why);
}

// Against the first report: what all of one receipt share.
void PublishedAggregator::Compare(const PublishedShard& shard) {
  for (const Incomparability& reason :
       ComparePublished(first_, shard.stated, PublishedUse::kAggregate).reasons) {
    Fault("NOT_COMPARABLE", shard.path + " and " + shards_.front().path + ": " + reason.text +
                                " [" + reason.code + "]; aggregate it separately");
  }
  if (options_.parent == nullptr && shard.stated.value("suite_token_sha256", Json()) !=
                                        first_.value("suite_token_sha256", Json())) {
    Fault("NOT_COMPARABLE", shard.path + ": its suite differs from " + shards_.front().path +
                                "'s; shard views of one suite need --suite");
  }
}

void PublishedAggregator::AddTail(const PublishedShard& shard, const Json& stated) {
  if (!shard.has_tail) return;
  if (tail_.shards == 0) {
    tail_.edges = stated.at("kld_tail").at("bin_edges").get<std::vector<double>>();
    tail_.counts.assign(shard.counts.size(), 0);
    tail_.binning = stated.at("kld_tail").at("binning");
    tail_.max = shard.max_kld;
    tail_.min = shard.min_kld;
  }
  ++tail_.shards;
  for (size_t i = 0; i < std::min(tail_.counts.size(), shard.counts.size()); ++i) {
    tail_.counts[i] += shard.counts[i];
  }
  tail_.max = std::max(tail_.max, shard.max_kld);
  if (!shard.min_kld.is_number()) tail_.min = nullptr;
  if (tail_.min.is_number() && shard.min_kld < tail_.min) tail_.min = shard.min_kld;
}

void PublishedAggregator::Add(const PublishedInput& report) {
  std::vector<std::string> problems;
  PublishedShard shard = ReadPublishedShard(report.path, report.sha256, report.document,
                                            options_.tolerance, &problems);
  for (const std::string& problem : problems) Fault("REPORT_INVALID", problem);
  if (!problems.empty()) return;
  if (shards_.empty()) {
    first_ = shard.stated;
    if (!shard.has_tail && !options_.allow_no_tail) {
      Fault("REPORT_INVALID", shard.path +
                                  ": the report is of the first generation and has no histogram; "
                                  "--allow-legacy-no-tail aggregates such reports without a tail");
    }
  } else {
    Compare(shard);
  }
  AddTail(shard, shard.stated);
  // Only what a receipt says of each shard is kept.
  Json kept = Json::object();
  for (const char* key :
       {"suite_token_sha256", "reference", "candidate", "token_mean_kld", "context_macro_mean_kld",
        "top1_agreement", "max_kld", "p999_kld", "mean_jsd_bits"}) {
    kept[key] = shard.stated.value(key, Json());
  }
  shard.stated = std::move(kept);
  std::vector<int64_t>().swap(shard.counts);
  shards_.push_back(std::move(shard));
}

// A report names the digest of its contexts in the parent's order.
void PublishedAggregator::CheckLineage(const PublishedShard& shard) {
  std::map<size_t, std::string> digests;
  for (const PublishedRow& row : shard.rows) {
    const size_t at = order_.at(row.index);
    digests[at] = options_.parent->contexts[at].token_sha256;
  }
  std::string all;
  for (const auto& [at, digest] : digests) all += digest;
  if (Sha256Hex(all) == shard.stated.at("suite_token_sha256")) return;
  Fault("COVERAGE_INVALID",
        shard.path + ": its suite digest is not that of the contexts it scored");
}

// Whole shards, and exactly those asked for.
void PublishedAggregator::CheckShards() {
  if (options_.shard_size == 0) return;
  std::map<int64_t, int64_t> counts;
  for (const PublishedRow& row : rows_) ++counts[ShardOf(row.index)];
  for (const auto& [shard, count] : counts) {
    covered_.push_back(shard);
    int64_t want = options_.shard_size;
    if (options_.parent != nullptr) {
      const auto total = static_cast<int64_t>(options_.parent->contexts.size());
      want = std::min(want, std::max<int64_t>(0, total - shard * options_.shard_size));
    }
    if (count == want) continue;
    Fault("COVERAGE_INVALID", "shard " + std::to_string(shard) + " has " + std::to_string(count) +
                                  " of " + std::to_string(want) + " contexts");
  }
  std::set<int64_t> wanted(options_.shards.begin(), options_.shards.end());
  for (size_t s = 0; options_.shards.empty() && s < covered_.size(); ++s) {
    wanted.insert(static_cast<int64_t>(s));
  }
  if (std::set<int64_t>(covered_.begin(), covered_.end()) == wanted) return;
  Fault("COVERAGE_INVALID",
        "other shards are covered than asked for; give every shard's report once");
}

// Rows and shards in the suite's order; contexts that appear twice or nowhere.
void PublishedAggregator::Order() {
  std::map<int64_t, const PublishedShard*> owner;
  for (const PublishedShard& shard : shards_) {
    bool known = true;
    for (const PublishedRow& row : shard.rows) {
      const std::string context = shard.path + ": context " + std::to_string(row.index);
      const auto [it, fresh] = owner.emplace(row.index, &shard);
      if (!fresh) {
        Fault("COVERAGE_INVALID", context + " is in " + it->second->path + " too");
        continue;
      }
      if (options_.parent != nullptr && order_.count(row.index) == 0) {
        Fault("COVERAGE_INVALID", context + " is not in the suite");
        known = false;
        continue;
      }
      rows_.push_back(row);
    }
    if (options_.parent != nullptr && known) CheckLineage(shard);
  }
  const auto key = [this](const PublishedRow& row) {
    return options_.parent == nullptr ? row.index : static_cast<int64_t>(order_.at(row.index));
  };
  std::sort(rows_.begin(), rows_.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  const auto least = [](const PublishedShard& shard) {
    return std::min_element(shard.rows.begin(), shard.rows.end(),
                            [](const auto& a, const auto& b) { return a.index < b.index; })
        ->index;
  };
  std::stable_sort(
      shards_.begin(), shards_.end(),
      [&](const PublishedShard& a, const PublishedShard& b) { return least(a) < least(b); });
}

absl::Status PublishedAggregator::Faults() const {
  if (faults_.empty()) return absl::OkStatus();
  std::string text;
  for (size_t i = 0; i < std::min(faults_.size(), kFaultsShown); ++i) {
    text += (i == 0 ? "" : "; ") + faults_[i].second;
  }
  if (faults_.size() > kFaultsShown) {
    text += "; and " + std::to_string(faults_.size() - kFaultsShown) + " faults more";
  }
  return InvalidError(faults_.front().first, text);
}

}  // namespace assay
