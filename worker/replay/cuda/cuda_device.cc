// ReplayDevice on CUDA: memory, streams and events around blaslt.h and launch.h.
//
// Three streams: `up_` brings rows from pinned memory, `compute_` multiplies and passes, `down_`
// takes partials back; so the upload of the next tile and the download of the last run beside the
// product. `read_` serves ReadLogits at once, without waiting for the next tile's product.

#include <algorithm>
#include <cstring>
#include <map>

#include "storage/base/macros.h"
#include "worker/replay/cuda/blaslt.h"
#include "worker/replay/cuda/launch.h"
#include "worker/replay/cuda/memory.h"
#include "worker/replay/cuda/plugin.h"

namespace assay::cuda {
namespace {

// Rows of a tile: enough to fill a GPU, few enough for pinned memory to stay small.
constexpr uint64_t kRowsMax = 4096;

struct Slot {
  std::vector<PinnedBuffer> staging;  // by operand
  std::vector<DeviceBuffer> hidden;   // by operand: bf16 [padded rows, padded width]
  std::vector<DeviceBuffer> logits;   // by source: fp32 [padded rows, padded columns]
  DeviceBuffer observed, sides, pair_rows, pairs;
  PinnedBuffer host_observed, host_sides, host_pair_rows, host_pairs;
  Event up_begin, up_end, product_begin, product_end, sides_end, sides_down, pair_begin, pair_end,
      pairs_down;
  uint64_t rows = 0, pair_count = 0;
};

class CudaDevice : public ReplayDevice {
 public:
  absl::Status Open(int rank);
  ~CudaDevice() override {
    if (cudaSetDevice(index_) == cudaSuccess) cudaDeviceSynchronize();
  }

  const DeviceIdentity& identity() const override { return identity_; }
  absl::StatusOr<uint64_t> RowsThatFit(const Job& job) override;
  absl::Status Begin(const Job& job, uint64_t rows_max) override;
  uint8_t* Staging(int slot, size_t operand) override {
    return slots_[slot].staging[operand].as<>();
  }
  absl::Status StartFirst(int slot, std::span<const int32_t> observed) override;
  absl::Status FinishFirst(int slot, std::vector<SideLeaf>* partials) override;
  absl::Status ReadLogits(int slot, std::span<const LogitPlace> places, double* out) override;
  absl::Status StartSecond(int slot, std::span<const PairRow> rows) override;
  absl::Status FinishSecond(int slot, std::vector<PairLeaf>* partials) override;
  absl::Status ReadProducts(int slot, size_t source, std::vector<float>* out) override;
  DeviceTimes times() const override { return times_; }

 private:
  absl::Status Use() { return CheckCuda(cudaSetDevice(index_), "cudaSetDevice"); }
  absl::Status BringHeads();
  absl::Status BringHead(const ReplayHead& head, DeviceBuffer* out);
  absl::Status MakeRoom(Slot* slot);
  absl::Status Upload(Slot* slot);
  absl::Status Multiply(Slot* slot);
  LogitRule RuleOf(size_t source) const;
  PassShape ShapeOf(const Slot& slot) const;
  uint64_t stride() const { return Padded(job_->own_columns(), kPadColumns); }
  uint64_t WidthOf(const Source& source) const { return job_->plan->heads[*source.head].hidden; }
  uint64_t own_leaves() const { return job_->own.count(); }

  int index_ = 0;
  DeviceIdentity identity_;
  std::unique_ptr<BlasLt> blas_;
  Stream up_, compute_, down_, read_;
  const Job* job_ = nullptr;
  uint64_t rows_max_ = 0;
  // Weights: bf16 [padded own columns, padded width]; those with a cache key by it, and by head
  // index.
  std::map<std::string, std::shared_ptr<DeviceBuffer>> kept_;
  std::vector<std::shared_ptr<DeviceBuffer>> heads_;
  std::vector<DeviceBuffer> biases_;  // by head index: fp32 [own columns]
  DeviceBuffer leaf_begin_, places_, place_values_;
  Slot slots_[kDeviceSlots];
  DeviceTimes times_;
};

absl::Status CudaDevice::Open(int rank) {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || count == 0) {
    return PreconditionError(
        "BACKEND_UNAVAILABLE",
        std::string("backend cuda-bf16 found no GPU (") +
            (counted != cudaSuccess ? cudaGetErrorString(counted) : "the driver reports none") +
            "); install NVIDIA's driver, or use cpu-bf16 or cpu-f32");
  }
  index_ = rank % count;
  ASSAY_RETURN_IF_ERROR(Use());
  cudaDeviceProp properties{};
  ASSAY_RETURN_IF_ERROR(
      CheckCuda(cudaGetDeviceProperties(&properties, index_), "asking for the GPU"));
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  identity_.device = std::string(properties.name) + ", sm_" + std::to_string(properties.major) +
                     std::to_string(properties.minor);
  identity_.driver = std::to_string(driver) + "/" + std::to_string(runtime);
  if (!KernelsRunHere()) {
    return PreconditionError(
        "BACKEND_UNAVAILABLE",
        "backend cuda-bf16 was not built for " + identity_.device +
            "; build with -DASSAY_CUDA_ARCHITECTURES=" + std::to_string(properties.major) +
            std::to_string(properties.minor) + ", or use a CPU backend");
  }
  ASSAY_ASSIGN_OR_RETURN(blas_, BlasLt::Open());
  identity_.product = blas_->version();
  identity_.algorithm = blas_->algorithm();
  ASSAY_RETURN_IF_ERROR(up_.Make(false));
  ASSAY_RETURN_IF_ERROR(compute_.Make(false));
  ASSAY_RETURN_IF_ERROR(down_.Make(false));
  ASSAY_RETURN_IF_ERROR(read_.Make(true));
  for (Slot& s : slots_) {
    for (Event* e : {&s.up_begin, &s.up_end, &s.product_begin, &s.product_end, &s.sides_end,
                     &s.sides_down, &s.pair_begin, &s.pair_end, &s.pairs_down}) {
      ASSAY_RETURN_IF_ERROR(e->Make());
    }
  }
  return absl::OkStatus();
}

// Half of what is free beside the heads, so that ranks that share a device fit as well.
absl::StatusOr<uint64_t> CudaDevice::RowsThatFit(const Job& job) {
  ASSAY_RETURN_IF_ERROR(Use());
  size_t free = 0, total = 0;
  ASSAY_RETURN_IF_ERROR(CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  uint64_t held = 0;  // tiles of the last job are reused
  for (const Slot& slot : slots_) {
    for (const DeviceBuffer& logits : slot.logits) held += logits.size();
  }
  const uint64_t columns = Padded(job.own_columns(), kPadColumns);
  uint64_t heads = 0;
  std::vector<bool> counted(job.plan->heads.size());
  for (const Source& source : job.sources) {
    if (!source.head || counted[*source.head]) continue;
    counted[*source.head] = true;
    heads += columns * Padded(job.plan->heads[*source.head].hidden, kPadWidth) * 2;
  }
  const uint64_t available = free + held > heads ? (free + held - heads) / 2 : 0;
  const uint64_t leaves = job.own.count();
  const uint64_t row =
      kDeviceSlots * (job.sources.size() * (columns * 4 + leaves * sizeof(SideLeaf)) +
                      job.comparisons.size() * leaves * sizeof(PairLeaf) + 4096);
  const uint64_t rows = available / row / kPadRows * kPadRows;
  return std::clamp<uint64_t>(rows, kPadRows, kRowsMax);
}

absl::Status CudaDevice::Begin(const Job& job, uint64_t rows_max) {
  ASSAY_RETURN_IF_ERROR(Use());
  ASSAY_RETURN_IF_ERROR(CheckCuda(cudaDeviceSynchronize(), "ending the last job"));
  job_ = &job;
  rows_max_ = Padded(rows_max, kPadRows);
  ASSAY_RETURN_IF_ERROR(BringHeads());
  std::vector<int64_t> begins;
  for (uint64_t l = job.own.first; l < job.own.last; ++l) {
    begins.push_back(static_cast<int64_t>(job.leaves[l].begin - job.own_begin));
  }
  begins.push_back(static_cast<int64_t>(job.own_columns()));
  ASSAY_RETURN_IF_ERROR(leaf_begin_.Reserve(begins.size() * 8));
  ASSAY_RETURN_IF_ERROR(CheckCuda(
      cudaMemcpy(leaf_begin_.as<>(), begins.data(), begins.size() * 8, cudaMemcpyHostToDevice),
      "bringing leaves"));
  for (Slot& slot : slots_) ASSAY_RETURN_IF_ERROR(MakeRoom(&slot));
  // The streams do not wait for what was done here without one.
  return CheckCuda(cudaDeviceSynchronize(), "making room");
}

absl::Status CudaDevice::BringHeads() {
  const ReplayPlan& plan = *job_->plan;
  std::map<std::string, std::shared_ptr<DeviceBuffer>> kept;
  heads_.assign(plan.heads.size(), nullptr);
  biases_.resize(plan.heads.size());
  const auto key_of = [&](const ReplayHead& head) {
    return head.cache_key.empty()
               ? ""
               : head.cache_key + "|" + std::to_string(job_->own_begin) + "|" +
                     std::to_string(job_->own_end) + "|" + std::to_string(head.hidden);
  };
  // What is not used goes before room is made for more.
  for (const ReplayHead& head : plan.heads) {
    const auto known = kept_.find(key_of(head));
    if (known != kept_.end()) kept.insert(*known);
  }
  kept_ = std::move(kept);
  for (const Source& source : job_->sources) {
    if (!source.head || heads_[*source.head] != nullptr) continue;
    const ReplayHead& head = plan.heads[*source.head];
    const std::string key = key_of(head);
    std::shared_ptr<DeviceBuffer>& mine = heads_[*source.head];
    if (const auto known = kept_.find(key); !key.empty() && known != kept_.end()) {
      mine = known->second;
    } else {
      mine = std::make_shared<DeviceBuffer>();
      ASSAY_RETURN_IF_ERROR(BringHead(head, mine.get()));
      if (!key.empty()) kept_[key] = mine;
    }
    if (head.bias.empty() || job_->own_columns() == 0) continue;
    ASSAY_RETURN_IF_ERROR(biases_[*source.head].Reserve(job_->own_columns() * 4));
    ASSAY_RETURN_IF_ERROR(
        CheckCuda(cudaMemcpy(biases_[*source.head].as<>(), head.bias.data() + job_->own_begin,
                             job_->own_columns() * 4, cudaMemcpyHostToDevice),
                  "bringing a bias"));
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::BringHead(const ReplayHead& head, DeviceBuffer* out) {
  const uint64_t columns = job_->own_columns(), width = Padded(head.hidden, kPadWidth);
  if (columns == 0) return absl::OkStatus();
  const uint64_t bytes = stride() * width * 2;
  ASSAY_RETURN_IF_ERROR(out->Reserve(bytes));
  ASSAY_RETURN_IF_ERROR(CheckCuda(cudaMemset(out->as<>(), 0, bytes), "cudaMemset"));
  const uint8_t* const from = head.bytes.data() + job_->own_begin * head.hidden * 2;
  ASSAY_RETURN_IF_ERROR(CheckCuda(cudaMemcpy2D(out->as<>(), width * 2, from, head.hidden * 2,
                                               head.hidden * 2, columns, cudaMemcpyHostToDevice),
                                  "bringing a head"));
  if (head.release) head.release({from, columns * head.hidden * 2});
  return absl::OkStatus();
}

absl::Status CudaDevice::MakeRoom(Slot* slot) {
  const Job& job = *job_;
  slot->staging.resize(job.plan->operands.size());
  slot->hidden.resize(job.plan->operands.size());
  slot->logits.resize(job.sources.size());
  for (size_t s = 0; s < job.sources.size(); ++s) {
    const Source& source = job.sources[s];
    ASSAY_RETURN_IF_ERROR(slot->logits[s].Reserve(rows_max_ * stride() * 4));
    const uint64_t row = source.head ? WidthOf(source) * 2 : job.own_columns() * 4;
    ASSAY_RETURN_IF_ERROR(slot->staging[source.operand].Reserve(rows_max_ * row + 1));
    if (!source.head) continue;
    DeviceBuffer& hidden = slot->hidden[source.operand];
    const uint64_t bytes = rows_max_ * Padded(WidthOf(source), kPadWidth) * 2;
    ASSAY_RETURN_IF_ERROR(hidden.Reserve(bytes));
    // The padding beyond the width stays zero; 0 x 0 adds nothing to a sum.
    ASSAY_RETURN_IF_ERROR(CheckCuda(cudaMemset(hidden.as<>(), 0, bytes), "cudaMemset"));
  }
  const uint64_t sides = job.sources.size() * rows_max_ * own_leaves() * sizeof(SideLeaf) + 1;
  const uint64_t pairs = job.comparisons.size() * rows_max_ * own_leaves() * sizeof(PairLeaf) + 1;
  const uint64_t pair_rows = job.comparisons.size() * rows_max_ * sizeof(PairRow);
  ASSAY_RETURN_IF_ERROR(slot->sides.Reserve(sides));
  ASSAY_RETURN_IF_ERROR(slot->host_sides.Reserve(sides));
  ASSAY_RETURN_IF_ERROR(slot->pairs.Reserve(pairs));
  ASSAY_RETURN_IF_ERROR(slot->host_pairs.Reserve(pairs));
  ASSAY_RETURN_IF_ERROR(slot->pair_rows.Reserve(pair_rows));
  ASSAY_RETURN_IF_ERROR(slot->host_pair_rows.Reserve(pair_rows));
  ASSAY_RETURN_IF_ERROR(slot->observed.Reserve(rows_max_ * 4));
  return slot->host_observed.Reserve(rows_max_ * 4);
}

LogitRule CudaDevice::RuleOf(size_t source) const {
  LogitRule rule{job_->softcap(), 1.0, nullptr};
  if (!job_->sources[source].head) return rule;
  const size_t h = *job_->sources[source].head;
  rule.scale = job_->plan->heads[h].scale;
  if (!job_->plan->heads[h].bias.empty()) rule.bias = biases_[h].as<float>();
  return rule;
}

PassShape CudaDevice::ShapeOf(const Slot& slot) const {
  return {leaf_begin_.as<int64_t>(), static_cast<int64_t>(job_->own_begin),
          static_cast<int>(own_leaves()), static_cast<int>(slot.rows), stride()};
}

// Rows of hidden operands go up beside the product of the tile before; the buffers are free, since
// the slot's last FinishFirst has waited for their product.
absl::Status CudaDevice::Upload(Slot* slot) {
  ASSAY_RETURN_IF_ERROR(slot->up_begin.Record(up_));
  std::vector<bool> done(slot->staging.size());
  for (const Source& source : job_->sources) {
    if (!source.head || done[source.operand]) continue;
    done[source.operand] = true;
    const uint64_t width = WidthOf(source) * 2;
    ASSAY_RETURN_IF_ERROR(
        CheckCuda(cudaMemcpy2DAsync(slot->hidden[source.operand].as<>(),
                                    Padded(WidthOf(source), kPadWidth) * 2,
                                    slot->staging[source.operand].as<>(), width, width, slot->rows,
                                    cudaMemcpyHostToDevice, up_.get()),
                  "uploading rows"));
  }
  ASSAY_RETURN_IF_ERROR(
      CheckCuda(cudaMemcpyAsync(slot->observed.as<>(), slot->host_observed.as<>(), slot->rows * 4,
                                cudaMemcpyHostToDevice, up_.get()),
                "uploading tokens"));
  return slot->up_end.Record(up_);
}

// Stored logits go straight into the tile, which the slot's last second pass may still read: so on
// the compute stream.
absl::Status CudaDevice::Multiply(Slot* slot) {
  const uint64_t rows = Padded(slot->rows, kPadRows);
  for (size_t s = 0; s < job_->sources.size(); ++s) {
    const Source& source = job_->sources[s];
    if (source.head) {
      ASSAY_RETURN_IF_ERROR(blas_->Multiply(slot->hidden[source.operand].as<>(),
                                            heads_[*source.head]->as<>(),
                                            slot->logits[s].as<float>(), rows, stride(),
                                            Padded(WidthOf(source), kPadWidth), compute_.get()));
      continue;
    }
    const uint64_t width = job_->own_columns() * 4;
    ASSAY_RETURN_IF_ERROR(
        CheckCuda(cudaMemcpy2DAsync(slot->logits[s].as<>(), stride() * 4,
                                    slot->staging[source.operand].as<>(), width, width, slot->rows,
                                    cudaMemcpyHostToDevice, compute_.get()),
                  "uploading logits"));
  }
  return absl::OkStatus();
}

absl::Status CudaDevice::StartFirst(int number, std::span<const int32_t> observed) {
  ASSAY_RETURN_IF_ERROR(Use());
  Slot& slot = slots_[number];
  slot.rows = observed.size();
  if (own_leaves() == 0) return absl::OkStatus();
  std::memcpy(slot.host_observed.as<>(), observed.data(), observed.size() * 4);
  ASSAY_RETURN_IF_ERROR(Upload(&slot));
  ASSAY_RETURN_IF_ERROR(slot.up_end.Block(compute_));
  ASSAY_RETURN_IF_ERROR(slot.product_begin.Record(compute_));
  ASSAY_RETURN_IF_ERROR(Multiply(&slot));
  ASSAY_RETURN_IF_ERROR(slot.product_end.Record(compute_));
  const uint64_t each = slot.rows * own_leaves();
  for (size_t s = 0; s < job_->sources.size(); ++s) {
    ASSAY_RETURN_IF_ERROR(
        CheckCuda(LaunchSide(ShapeOf(slot), slot.logits[s].as<float>(), RuleOf(s),
                             slot.observed.as<int32_t>(), slot.sides.as<SideLeaf>() + s * each,
                             compute_.get()),
                  "launching the first pass"));
  }
  ASSAY_RETURN_IF_ERROR(slot.sides_end.Record(compute_));
  ASSAY_RETURN_IF_ERROR(slot.sides_end.Block(down_));
  ASSAY_RETURN_IF_ERROR(CheckCuda(cudaMemcpyAsync(slot.host_sides.as<>(), slot.sides.as<>(),
                                                  job_->sources.size() * each * sizeof(SideLeaf),
                                                  cudaMemcpyDeviceToHost, down_.get()),
                                  "bringing partials back"));
  return slot.sides_down.Record(down_);
}

absl::Status CudaDevice::FinishFirst(int number, std::vector<SideLeaf>* partials) {
  ASSAY_RETURN_IF_ERROR(Use());
  Slot& slot = slots_[number];
  partials->resize(job_->sources.size() * slot.rows * own_leaves());
  if (own_leaves() == 0) return absl::OkStatus();
  ASSAY_RETURN_IF_ERROR(slot.sides_down.Wait());
  std::memcpy(partials->data(), slot.host_sides.as<>(), partials->size() * sizeof(SideLeaf));
  times_.upload += slot.up_end.Since(slot.up_begin);
  times_.product += slot.product_end.Since(slot.product_begin);
  times_.first_pass += slot.sides_end.Since(slot.product_end);
  return absl::OkStatus();
}

absl::Status CudaDevice::ReadLogits(int number, std::span<const LogitPlace> places, double* out) {
  if (places.empty()) return absl::OkStatus();
  ASSAY_RETURN_IF_ERROR(Use());
  const Slot& slot = slots_[number];
  std::vector<PlaceOnDevice> at;
  at.reserve(places.size());
  for (const LogitPlace& p : places) {
    const LogitRule rule = RuleOf(p.source);
    const uint64_t column = p.column - job_->own_begin;
    at.push_back({slot.logits[p.source].as<float>() + p.row * stride() + column,
                  rule.bias == nullptr ? nullptr : rule.bias + column, rule.scale});
  }
  ASSAY_RETURN_IF_ERROR(places_.Reserve(at.size() * sizeof at[0]));
  ASSAY_RETURN_IF_ERROR(place_values_.Reserve(at.size() * 8));
  ASSAY_RETURN_IF_ERROR(
      CheckCuda(cudaMemcpyAsync(places_.as<>(), at.data(), at.size() * sizeof at[0],
                                cudaMemcpyHostToDevice, read_.get()),
                "asking for logits"));
  ASSAY_RETURN_IF_ERROR(
      CheckCuda(LaunchRead(places_.as<PlaceOnDevice>(), static_cast<int>(at.size()),
                           job_->softcap(), place_values_.as<double>(), read_.get()),
                "launching a read"));
  ASSAY_RETURN_IF_ERROR(CheckCuda(cudaMemcpyAsync(out, place_values_.as<>(), at.size() * 8,
                                                  cudaMemcpyDeviceToHost, read_.get()),
                                  "reading logits"));
  return CheckCuda(cudaStreamSynchronize(read_.get()), "reading logits");
}

absl::Status CudaDevice::StartSecond(int number, std::span<const PairRow> rows) {
  ASSAY_RETURN_IF_ERROR(Use());
  Slot& slot = slots_[number];
  slot.pair_count = rows.size() * own_leaves();
  if (own_leaves() == 0) return absl::OkStatus();
  std::memcpy(slot.host_pair_rows.as<>(), rows.data(), rows.size_bytes());
  ASSAY_RETURN_IF_ERROR(
      CheckCuda(cudaMemcpyAsync(slot.pair_rows.as<>(), slot.host_pair_rows.as<>(),
                                rows.size_bytes(), cudaMemcpyHostToDevice, compute_.get()),
                "uploading rows' sums"));
  ASSAY_RETURN_IF_ERROR(slot.pair_begin.Record(compute_));
  for (size_t c = 0; c < job_->comparisons.size(); ++c) {
    const auto [ref, cand] = job_->comparisons[c];
    ASSAY_RETURN_IF_ERROR(CheckCuda(
        LaunchPair(ShapeOf(slot), slot.logits[ref].as<float>(), slot.logits[cand].as<float>(),
                   RuleOf(ref), RuleOf(cand), slot.pair_rows.as<PairRow>() + c * slot.rows,
                   slot.pairs.as<PairLeaf>() + c * slot.rows * own_leaves(), compute_.get()),
        "launching the second pass"));
  }
  ASSAY_RETURN_IF_ERROR(slot.pair_end.Record(compute_));
  ASSAY_RETURN_IF_ERROR(slot.pair_end.Block(down_));
  ASSAY_RETURN_IF_ERROR(CheckCuda(
      cudaMemcpyAsync(slot.host_pairs.as<>(), slot.pairs.as<>(), slot.pair_count * sizeof(PairLeaf),
                      cudaMemcpyDeviceToHost, down_.get()),
      "bringing partials back"));
  return slot.pairs_down.Record(down_);
}

absl::Status CudaDevice::FinishSecond(int number, std::vector<PairLeaf>* partials) {
  ASSAY_RETURN_IF_ERROR(Use());
  Slot& slot = slots_[number];
  partials->resize(slot.pair_count);
  if (own_leaves() == 0) return absl::OkStatus();
  ASSAY_RETURN_IF_ERROR(slot.pairs_down.Wait());
  std::memcpy(partials->data(), slot.host_pairs.as<>(), partials->size() * sizeof(PairLeaf));
  times_.second_pass += slot.pair_end.Since(slot.pair_begin);
  return absl::OkStatus();
}

absl::Status CudaDevice::ReadProducts(int number, size_t source, std::vector<float>* out) {
  ASSAY_RETURN_IF_ERROR(Use());
  const Slot& slot = slots_[number];
  out->resize(slot.rows * job_->own_columns());
  if (out->empty()) return absl::OkStatus();
  const uint64_t width = job_->own_columns() * 4;
  return CheckCuda(cudaMemcpy2D(out->data(), width, slot.logits[source].as<>(), stride() * 4, width,
                                slot.rows, cudaMemcpyDeviceToHost),
                   "reading products");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReplayDevice>> OpenCudaDevice(int rank) {
  auto device = std::make_unique<CudaDevice>();
  ASSAY_RETURN_IF_ERROR(device->Open(rank));
  return device;
}

}  // namespace assay::cuda
