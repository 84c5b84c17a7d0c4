// Reading the shard reports of an aggregate: what they share, what they cover.

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

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
    order_[options_.parent->contexts[i].index] = static_cast<int64_t>(i);
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
  for (PublishedRow& row : std::exchange(shard.rows, {})) {
    row.stratum = *names_.emplace(row.stratum).first;
    row.source_cluster = *names_.emplace(row.source_cluster).first;
    row.report = static_cast<uint32_t>(shards_.size());
    rows_.push_back(row);
  }
  shards_.push_back(std::move(shard));
}

// A report names the digest of its contexts in the parent's order. `known`: by report, whether the
// parent has all its contexts.
void PublishedAggregator::CheckLineage(const std::vector<bool>& known) {
  std::vector<Sha256> digests(shards_.size());
  for (const PublishedRow& row : rows_) {
    if (!known[row.report]) continue;
    const auto at = static_cast<size_t>(order_.at(row.index));
    digests[row.report].Update(std::string_view(options_.parent->contexts[at].token_sha256));
  }
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (!known[s]) continue;
    if (digests[s].FinishHex() == shards_[s].stated.at("suite_token_sha256")) continue;
    Fault("COVERAGE_INVALID",
          shards_[s].path + ": its suite digest is not that of the contexts it scored");
  }
}

// Whole shards, and exactly those asked for.
void PublishedAggregator::CheckShards() {
  covered_.clear();
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

// Takes out rows of contexts that the parent does not have.
std::vector<bool> PublishedAggregator::DropUnknown() {
  std::vector<bool> known(shards_.size(), true);
  std::erase_if(rows_, [&](const PublishedRow& row) {
    if (order_.contains(row.index)) return false;
    Fault("COVERAGE_INVALID", shards_[row.report].path + ": context " + std::to_string(row.index) +
                                  " is not in the suite");
    known[row.report] = false;
    return true;
  });
  return known;
}

// Rows and shards in the suite's order; contexts that appear twice or nowhere.
void PublishedAggregator::Order() {
  std::vector<bool> known;
  if (options_.parent != nullptr) known = DropUnknown();
  const auto key = [this](const PublishedRow& row) {
    return options_.parent == nullptr ? row.index : order_.at(row.index);
  };
  const auto before = [&](const PublishedRow& a, const PublishedRow& b) {
    return std::pair(key(a), a.report) < std::pair(key(b), b.report);
  };
  if (!std::is_sorted(rows_.begin(), rows_.end(), before)) {
    std::sort(rows_.begin(), rows_.end(), before);
  }
  if (options_.parent != nullptr) CheckLineage(known);
  const PublishedRow* last = nullptr;
  for (const PublishedRow& row : rows_) {
    if (last != nullptr && last->index == row.index) {
      Fault("COVERAGE_INVALID", shards_[row.report].path + ": context " +
                                    std::to_string(row.index) + " is in " +
                                    shards_[last->report].path + " too");
    } else {
      last = &row;
    }
  }
  const auto same = [](const auto& a, const auto& b) { return a.index == b.index; };
  rows_.erase(std::unique(rows_.begin(), rows_.end(), same), rows_.end());
  std::vector<uint32_t> order(shards_.size()), place(shards_.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::stable_sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    return shards_[a].index_min < shards_[b].index_min;
  });
  std::vector<PublishedShard> sorted;
  for (const uint32_t from : order) {
    place[from] = static_cast<uint32_t>(sorted.size());
    sorted.push_back(std::move(shards_[from]));
  }
  shards_ = std::move(sorted);
  for (PublishedRow& row : rows_) row.report = place[row.report];
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
