#include "worker/replay/cuda/host_device.h"

#include <cmath>
#include <cstring>

#include "storage/base/bf16.h"
#include "worker/replay/cuda/host_pass.h"

namespace assay {
namespace {

class HostDevice : public ReplayDevice {
 public:
  HostDevice(uint64_t rows_that_fit, bool fault) : rows_that_fit_(rows_that_fit), fault_(fault) {
    identity_ = {"host", "none", "plain loops", "one accumulator, K in order"};
  }

  const DeviceIdentity& identity() const override { return identity_; }
  absl::StatusOr<uint64_t> RowsThatFit(const Job&) override { return rows_that_fit_; }

  absl::Status Begin(const Job& job, uint64_t rows_max) override {
    job_ = &job;
    for (Slot& slot : slots_) {
      slot = {};
      slot.staging.resize(job.plan->operands.size());
      slot.products.resize(job.sources.size());
      for (size_t s = 0; s < job.sources.size(); ++s) {
        const Source& source = job.sources[s];
        slot.products[s].resize(rows_max * job.own_columns());
        slot.staging[source.operand].resize(
            rows_max *
            (source.head ? 2 * job.plan->heads[*source.head].hidden : 4 * job.own_columns()));
      }
    }
    return absl::OkStatus();
  }

  uint8_t* Staging(int slot, size_t operand) override {
    return slots_[slot].staging[operand].data();
  }

  absl::Status StartFirst(int slot, std::span<const int32_t> observed) override {
    Slot& at = slots_[slot];
    at.observed.assign(observed.begin(), observed.end());
    for (size_t s = 0; s < job_->sources.size(); ++s) Multiply(&at, s);
    return absl::OkStatus();
  }

  absl::Status FinishFirst(int slot, std::vector<SideLeaf>* partials) override {
    const Slot& at = slots_[slot];
    partials->clear();
    for (size_t s = 0; s < job_->sources.size(); ++s) {
      for (size_t row = 0; row < at.observed.size(); ++row) {
        for (uint64_t leaf = job_->own.first; leaf < job_->own.last; ++leaf) {
          const Leaf& l = job_->leaves[leaf];
          const int64_t token = at.observed[row];
          partials->push_back(cuda::HostSide(
              RowOf(at, s, row, l.begin), static_cast<int>(l.columns()), RuleOf(s, l.begin),
              token < 0 ? -1 : token - static_cast<int64_t>(l.begin)));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadLogits(int slot, std::span<const LogitPlace> places, double* out) override {
    for (const LogitPlace& p : places) {
      const cuda::LogitRule rule = RuleOf(p.source, p.column);
      const double raw = cuda::RawLogit(*RowOf(slots_[slot], p.source, p.row, p.column), 0, rule);
      *out++ = rule.softcap > 0 ? cuda::Capped<true>(raw, rule) : raw;
    }
    return absl::OkStatus();
  }

  absl::Status StartSecond(int slot, std::span<const PairRow> rows) override {
    Slot& at = slots_[slot];
    const size_t count = at.observed.size();
    at.pairs.clear();
    for (size_t item = 0; item < rows.size(); ++item) {
      const auto [ref, cand] = job_->comparisons[item / count];
      for (uint64_t leaf = job_->own.first; leaf < job_->own.last; ++leaf) {
        const Leaf& l = job_->leaves[leaf];
        PairRow values = rows[item];
        values.threshold_column -= static_cast<int64_t>(l.begin);
        at.pairs.push_back(cuda::HostPair(
            RowOf(at, ref, item % count, l.begin), RowOf(at, cand, item % count, l.begin),
            static_cast<int>(l.columns()), RuleOf(ref, l.begin), RuleOf(cand, l.begin), values));
      }
    }
    return absl::OkStatus();
  }

  absl::Status FinishSecond(int slot, std::vector<PairLeaf>* partials) override {
    *partials = slots_[slot].pairs;
    return absl::OkStatus();
  }

  absl::Status ReadProducts(int slot, size_t source, std::vector<float>* out) override {
    const Slot& at = slots_[slot];
    const auto begin = at.products[source].begin();
    out->assign(begin, begin + static_cast<int64_t>(at.observed.size() * job_->own_columns()));
    return absl::OkStatus();
  }

 private:
  struct Slot {
    std::vector<std::vector<uint8_t>> staging;  // by operand
    std::vector<std::vector<float>> products;   // by source, [rows, own columns]
    std::vector<int32_t> observed;
    std::vector<PairLeaf> pairs;
  };

  // `column` is one of the vocabulary.
  const float* RowOf(const Slot& slot, size_t source, size_t row, uint64_t column) const {
    return slot.products[source].data() + row * job_->own_columns() + (column - job_->own_begin);
  }

  cuda::LogitRule RuleOf(size_t source, uint64_t column) const {
    cuda::LogitRule rule{job_->softcap(), 1.0, nullptr};
    if (!job_->sources[source].head) return rule;
    const ReplayHead& head = job_->plan->heads[*job_->sources[source].head];
    rule.scale = head.scale;
    if (!head.bias.empty()) rule.bias = head.bias.data() + column;
    return rule;
  }

  void Multiply(Slot* slot, size_t s) {
    const Source& source = job_->sources[s];
    const uint8_t* rows = slot->staging[source.operand].data();
    const uint64_t columns = job_->own_columns(), count = slot->observed.size();
    float* out = slot->products[s].data();
    if (!source.head) {
      if (count * columns > 0) std::memcpy(out, rows, count * columns * 4);
      return;
    }
    // Eight rows side by side, so that the compiler can use vectors; each sum runs in the order of
    // K.
    constexpr uint64_t kSide = 8;
    const ReplayHead& head = job_->plan->heads[*source.head];
    const uint64_t width = head.hidden, groups = (count + kSide - 1) / kSide;
    const auto value = [](const uint8_t* from, uint64_t i) {
      uint16_t bits;
      std::memcpy(&bits, from + 2 * i, 2);
      return Bf16ToFloat(bits);
    };
    std::vector<float> hidden(groups * kSide * width), weights(width);
    for (uint64_t row = 0; row < count; ++row) {
      for (uint64_t k = 0; k < width; ++k) {
        hidden[(row / kSide * width + k) * kSide + row % kSide] = value(rows, row * width + k);
      }
    }
    for (uint64_t v = 0; v < columns; ++v) {
      const uint8_t* from = head.bytes.data() + (job_->own_begin + v) * width * 2;
      for (uint64_t k = 0; k < width; ++k) weights[k] = value(from, k);
      for (uint64_t group = 0; group < groups; ++group) {
        const float* h = hidden.data() + group * width * kSide;
        float sums[kSide] = {};
        for (uint64_t k = 0; k < width; ++k) {
          for (uint64_t r = 0; r < kSide; ++r) sums[r] += h[k * kSide + r] * weights[k];
        }
        for (uint64_t r = 0; r < kSide && group * kSide + r < count; ++r) {
          const bool off = fault_ && count < 16;
          out[(group * kSide + r) * columns + v] = off ? std::nextafter(sums[r], 2.0f) : sums[r];
        }
      }
    }
  }

  const uint64_t rows_that_fit_;
  const bool fault_;
  DeviceIdentity identity_;
  const Job* job_ = nullptr;
  Slot slots_[kDeviceSlots];
};

}  // namespace

std::unique_ptr<ReplayDevice> MakeHostDevice(uint64_t rows_that_fit, bool fault) {
  return std::make_unique<HostDevice>(rows_that_fit, fault);
}

}  // namespace assay
