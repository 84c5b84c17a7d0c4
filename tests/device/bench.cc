// The benchmark of assay-device-test. Data are random: only the time matters.

#include <chrono>
#include <thread>

#include "storage/base/bf16.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "tests/device/checks.h"
#include "worker/replay/cuda/blaslt.h"
#include "worker/replay/cuda/device_run.h"
#include "worker/replay/cuda/memory.h"
#include "worker/replay/cuda/plugin.h"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Roughly normal bf16 values of the given size.
std::vector<uint16_t> Fill(uint64_t count, float scale, uint64_t seed) {
  std::vector<uint16_t> out(count);
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      uint64_t state = (seed * 1000 + t) * 2 + 1;
      for (uint64_t i = count * t / threads; i < count * (t + 1) / threads; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float sum = static_cast<float>((state >> 32) & 0xffff) +
                          static_cast<float>((state >> 48) & 0xffff) - 65535.0f;
        out[i] = FloatToBf16(sum * scale * 0x1p-15f);
      }
    });
  }
  for (std::thread& t : running) t.join();
  return out;
}

std::span<const uint8_t> BytesOf(const std::vector<uint16_t>& v) {
  return {reinterpret_cast<const uint8_t*>(v.data()), v.size() * 2};
}

struct Problem {
  explicit Problem(const BenchShape& shape)
      : head(Fill(shape.vocab * shape.hidden, 0.05f, 1)),
        ref(Fill(shape.positions * shape.hidden, 1.0f, 2)),
        cand(ref) {
    const auto noise = Fill(cand.size(), 0.02f, 3);
    for (size_t i = 0; i < cand.size(); ++i) {
      cand[i] = FloatToBf16(Bf16ToFloat(cand[i]) + Bf16ToFloat(noise[i]));
    }
    plan.backend = ReplayBackend::kCudaBf16;
    plan.heads.push_back({"h", BytesOf(head), shape.vocab, shape.hidden, "bench", 1, {}});
    for (const std::vector<uint16_t>* rows :
         {&ref, static_cast<const std::vector<uint16_t>*>(&cand)}) {
      const RowBlock block{BytesOf(*rows), RowType::kBf16, shape.positions, shape.hidden, nullptr};
      plan.operands.push_back({rows == &ref ? "ref" : "cand", OperandKind::kHidden,
                               [block](size_t) -> absl::StatusOr<RowBlock> { return block; }});
    }
    for (uint64_t c = 0; c < shape.contexts; ++c) {
      plan.contexts.push_back({static_cast<int64_t>(c),
                               std::vector<int32_t>(shape.positions, static_cast<int32_t>(c))});
    }
    plan.comparisons.push_back({"c", {"ref", "h"}, {"cand", "h"}});
  }

  const std::vector<uint16_t> head, ref;
  std::vector<uint16_t> cand;
  ReplayPlan plan;
};

// Seconds of one cuBLASLt product of a context's rows, by itself, after a warm-up.
absl::StatusOr<double> ProductAlone(const Problem& p, const BenchShape& shape) {
  using cuda::CheckCuda;
  constexpr int kRuns = 10;
  ASSAY_ASSIGN_OR_RETURN(const auto blas, cuda::BlasLt::Open());
  const uint64_t rows = cuda::Padded(shape.positions, cuda::kPadRows),
                 columns = cuda::Padded(shape.vocab, cuda::kPadColumns),
                 width = cuda::Padded(shape.hidden, cuda::kPadWidth);
  cuda::DeviceBuffer head, hidden, out;
  ASSAY_RETURN_IF_ERROR(head.Reserve(columns * width * 2));
  ASSAY_RETURN_IF_ERROR(hidden.Reserve(rows * width * 2));
  ASSAY_RETURN_IF_ERROR(out.Reserve(rows * columns * 4));
  ASSAY_RETURN_IF_ERROR(
      CheckCuda(cudaMemcpy2D(head.as<>(), width * 2, p.head.data(), shape.hidden * 2,
                             shape.hidden * 2, shape.vocab, cudaMemcpyHostToDevice),
                "bringing the head"));
  ASSAY_RETURN_IF_ERROR(
      CheckCuda(cudaMemcpy2D(hidden.as<>(), width * 2, p.ref.data(), shape.hidden * 2,
                             shape.hidden * 2, shape.positions, cudaMemcpyHostToDevice),
                "bringing rows"));
  cuda::Stream stream;
  cuda::Event begin, end;
  ASSAY_RETURN_IF_ERROR(stream.Make(false));
  ASSAY_RETURN_IF_ERROR(begin.Make());
  ASSAY_RETURN_IF_ERROR(end.Make());
  for (int i = 0; i < kRuns + 3; ++i) {
    if (i == 3) ASSAY_RETURN_IF_ERROR(begin.Record(stream));
    ASSAY_RETURN_IF_ERROR(blas->Multiply(hidden.as<>(), head.as<>(), out.as<float>(), rows, columns,
                                         width, stream.get()));
  }
  ASSAY_RETURN_IF_ERROR(end.Record(stream));
  ASSAY_RETURN_IF_ERROR(end.Wait());
  return end.Since(begin) / kRuns;
}

struct Measured {
  DeviceTimes parts;
  double wall = 0, prepare = 0, product_alone = 0;
};

absl::StatusOr<Measured> Measure(Problem& p, const BenchShape& shape) {
  Measured out;
  ASSAY_ASSIGN_OR_RETURN(out.product_alone, ProductAlone(p, shape));
  ASSAY_ASSIGN_OR_RETURN(const auto device, cuda::OpenCudaDevice(0));
  auto group = CreateThreadCollectives(1, 60'000);
  ThreadPool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  HeadStore store;
  ReplayPlan warm_plan = p.plan;  // brings the head and makes room
  warm_plan.contexts.resize(2);
  ASSAY_ASSIGN_OR_RETURN(const Job warm, ResolveJob(warm_plan, 0, 1));
  ASSAY_ASSIGN_OR_RETURN(const Prepared warmed, PrepareRun(warm, &store, pool, *group[0]));
  ASSAY_RETURN_IF_ERROR(RunOnDevice(warm, warmed, *device, *group[0], nullptr, nullptr).status());
  ASSAY_ASSIGN_OR_RETURN(const Job job, ResolveJob(p.plan, 0, 1));
  Clock::time_point start = Clock::now();
  ASSAY_ASSIGN_OR_RETURN(const Prepared prepared, PrepareRun(job, &store, pool, *group[0]));
  out.prepare = Since(start);
  const DeviceTimes before = device->times();
  start = Clock::now();
  ASSAY_RETURN_IF_ERROR(RunOnDevice(job, prepared, *device, *group[0], nullptr, nullptr).status());
  out.wall = Since(start);
  const DeviceTimes after = device->times();
  out.parts = {after.upload - before.upload, after.product - before.product,
               after.first_pass - before.first_pass, after.second_pass - before.second_pass};
  return out;
}

}  // namespace

Json RunBench(const BenchShape& shape) {
  Problem problem(shape);
  const absl::StatusOr<Measured> measured = Measure(problem, shape);
  if (!measured.ok()) {
    return {{"passed", false}, {"failures", {measured.status().ToString()}}};
  }
  const double scale = static_cast<double>(shape.report_for) / static_cast<double>(shape.contexts);
  const double alone = measured->product_alone * 2 * static_cast<double>(shape.contexts);
  const DeviceTimes& parts = measured->parts;
  const double metric = parts.first_pass + parts.second_pass;
  const double sum = parts.upload + parts.product + metric;
  return {{"passed", true},
          {"failures", Json::array()},
          {"vocabulary", shape.vocab},
          {"hidden", shape.hidden},
          {"positions_per_context", shape.positions},
          {"contexts_run", shape.contexts},
          {"seconds_run",
           {{"wall", measured->wall},
            {"product", parts.product},
            {"first_pass", parts.first_pass},
            {"second_pass", parts.second_pass},
            {"metric", metric},
            {"upload", parts.upload},
            {"hidden_by_overlap", std::max(0.0, sum - measured->wall)},
            {"prepare_not_in_wall", measured->prepare},
            {"cublaslt_alone", alone}}},
          {"ratio_to_cublaslt_alone", measured->wall / alone},
          {"extrapolated",
           {{"contexts", shape.report_for},
            {"wall", measured->wall * scale},
            {"cublaslt_alone", alone * scale},
            {"prepare_not_in_wall", measured->prepare * scale},
            {"note", "seconds of the contexts run, times contexts / contexts_run"}}}};
}

}  // namespace assay
