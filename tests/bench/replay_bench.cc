// What the metric costs beside its matrix products: ratios within one run, on this machine, with
// these threads.
//
//   assay_replay_bench [threads] [rows] [repeats]
//
// "gemms" fills the same tiles through the same oneDNN kernels and does nothing with them; "onednn"
// is one call of oneDNN per tile and operand over the whole vocabulary, with its own threads. Times
// are the smallest of the repeats.

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "storage/base/bf16.h"
#include "worker/replay/kernels.h"
#include "worker/replay/logits.h"
#include "worker/replay/passes.h"
#include "worker/replay/prepare.h"
#include "worker/replay/replay.h"

namespace assay {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Processor time of all threads: the measure that a busy machine disturbs least.
double CpuTime() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::vector<uint16_t> Values(uint64_t count, uint64_t seed, float scale) {
  std::vector<uint16_t> out(count);
  for (uint16_t& v : out) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    v = FloatToBf16((static_cast<float>(seed >> 40) * 0x1p-24f - 0.5f) * scale);
  }
  return out;
}

std::span<const uint8_t> Bytes(const std::vector<uint16_t>& v) {
  return {reinterpret_cast<const uint8_t*>(v.data()), v.size() * 2};
}

struct Data {
  std::vector<uint16_t> head;
  std::vector<std::vector<uint16_t>> rows;
  ReplayPlan plan;
};

// Logits of a few units' spread and candidates close to the reference, as real ones are.
Data MakeData(uint64_t vocab, uint64_t hidden, uint64_t rows, int candidates) {
  Data out;
  out.head = Values(vocab * hidden, 1, 0.5f);
  out.rows.push_back(Values(rows * hidden, 2, 1.0f));
  for (int k = 1; k <= candidates; ++k) {
    std::vector<uint16_t> noise = Values(rows * hidden, 2 + k, 0.1f);
    for (size_t i = 0; i < noise.size(); ++i) {
      noise[i] = FloatToBf16(Bf16ToFloat(noise[i]) + Bf16ToFloat(out.rows[0][i]));
    }
    out.rows.push_back(std::move(noise));
  }
  ReplayHead head;
  head.id = "h";
  head.bytes = Bytes(out.head);
  head.vocab = vocab;
  head.hidden = hidden;
  head.cache_key = "bench";
  out.plan.heads.push_back(head);
  ReplayContext context;
  context.observed.assign(rows, 3);
  out.plan.contexts.push_back(context);
  for (size_t o = 0; o < out.rows.size(); ++o) {
    const RowBlock block{Bytes(out.rows[o]), RowType::kBf16, rows, hidden, nullptr};
    std::string id("o");
    id.append(std::to_string(o));
    out.plan.operands.push_back(
        {id, OperandKind::kHidden, [block](size_t) -> absl::StatusOr<RowBlock> { return block; }});
    if (o > 0) out.plan.comparisons.push_back({id, {"o0", "h"}, {id, "h"}});
  }
  return out;
}

// One oneDNN product per operand and tile over the whole vocabulary, threaded by oneDNN itself.
double TimeOnednn(const Data& data, uint64_t vocab, uint64_t hidden, uint64_t rows, int threads,
                  int repeats) {
  using dnnl::memory;
  const auto m = static_cast<int64_t>(std::min(rows, data.plan.row_tile));
  const auto n = static_cast<int64_t>(vocab), k = static_cast<int64_t>(hidden);
  omp_set_num_threads(threads);
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const memory::desc a({m, k}, memory::data_type::bf16, memory::dims{k, 1});
  const memory::desc b({k, n}, memory::data_type::bf16, memory::format_tag::any);
  const memory::desc c({m, n}, memory::data_type::f32, memory::dims{n, 1});
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), engine);
  const dnnl::matmul product(desc);
  memory plain({{k, n}, memory::data_type::bf16, memory::dims{1, k}}, engine,
               const_cast<uint16_t*>(data.head.data()));
  memory weights(desc.weights_desc(), engine), out(c, engine);
  dnnl::stream stream(engine);
  dnnl::reorder(plain, weights).execute(stream, plain, weights);
  stream.wait();
  double best = 1e30;
  for (int r = 0; r < repeats; ++r) {
    const double start = Now();
    for (const auto& operand : data.rows) {
      for (uint64_t row = 0; row + m <= rows; row += m) {
        memory in(a, engine, const_cast<uint16_t*>(operand.data() + row * hidden));
        product.execute(stream,
                        {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, out}});
        stream.wait();
      }
    }
    best = std::min(best, Now() - start);
  }
  return best;
}

// The same tiles as a replay, products only.
double TimeProducts(const Data& data, ThreadPool& pool, double* cpu) {
  auto single = CreateCollective({}).value();
  const Job job = ResolveJob(data.plan, 0, 1).value();
  HeadStore store;
  const Prepared prepared = PrepareRun(job, &store, pool, *single).value();
  ContextRows rows;
  if (!rows.Load(job, 0, prepared.backend).ok()) std::abort();
  Tile tile;
  std::vector<SideLeaf> unused;
  const uint64_t total = data.plan.contexts[0].observed.size();
  tile.Reset(job, 0, 0,
             std::min(data.plan.row_tile, total));  // memory touched before the clock starts
  if (!FillTile(rows, prepared.heads, pool, false, &tile, &unused).ok()) std::abort();
  const double start = Now(), cpu_start = CpuTime();
  for (uint64_t row = 0; row < total; row += data.plan.row_tile) {
    tile.Reset(job, 0, row, std::min(data.plan.row_tile, total - row));
    if (!FillTile(rows, prepared.heads, pool, false, &tile, &unused).ok()) std::abort();
  }
  *cpu = std::min(*cpu, CpuTime() - cpu_start);
  return Now() - start;
}

void Measure(uint64_t vocab, uint64_t hidden, uint64_t rows, int candidates, int threads,
             int repeats) {
  const Data data = MakeData(vocab, hidden, rows, candidates);
  auto single = CreateCollective({}).value();
  auto engine = ReplayEngine::Create(threads).value();
  ThreadPool pool(threads);
  double whole = 1e30, products = 1e30, onednn = 1e30, whole_cpu = 1e30, products_cpu = 1e30;
  if (!engine->Run(data.plan, *single, nullptr, nullptr).ok()) std::abort();  // packs the head
  for (int r = 0; r < repeats; ++r) {  // interleaved, so that noise meets all three alike
    const double start = Now(), cpu_start = CpuTime();
    if (!engine->Run(data.plan, *single, nullptr, nullptr).ok()) std::abort();
    whole = std::min(whole, Now() - start);
    whole_cpu = std::min(whole_cpu, CpuTime() - cpu_start);
    products = std::min(products, TimeProducts(data, pool, &products_cpu));
    onednn = std::min(onednn, TimeOnednn(data, vocab, hidden, rows, threads, 1));
  }
  const double columns = static_cast<double>(rows) * static_cast<double>(vocab) * candidates;
  std::printf(
      "V %6lu H %5lu rows %4lu candidates %d threads %d: replay %8.2f ms, gemms %8.2f ms, "
      "onednn %8.2f ms | replay/gemms %.3f (processor time %.3f), replay/onednn %.3f | metric "
      "%.2f core-ns per column\n",
      vocab, hidden, rows, candidates, threads, whole * 1e3, products * 1e3, onednn * 1e3,
      whole / products, whole_cpu / products_cpu, whole / onednn,
      (whole_cpu - products_cpu) * 1e9 / columns);
}

void MeasureKernels() {
  std::vector<float> a(3072), b(3072);
  const std::vector<uint16_t> noise = Values(2 * a.size(), 9, 8.0f);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = Bf16ToFloat(noise[i]);
    b[i] = a[i] + 0.05f * Bf16ToFloat(noise[a.size() + i]);
  }
  const auto n = static_cast<int64_t>(a.size());
  int count = 0;
  const ReplayKernels* const* all = AllKernels(&count);
  for (int k = 0; k < count; ++k) {
    SideLeaf x, y;
    PairLeaf pair;
    double side = 1e30, both = 1e30;
    for (int r = 0; r < 20; ++r) {
      double start = Now();
      all[k]->side_f32(a.data(), n, 0, 5, &x);
      side = std::min(side, Now() - start);
      all[k]->side_f32(b.data(), n, 0, 5, &y);
      const PairRow row{x.max, y.max, all[k]->log1p(x.tail), all[k]->log1p(y.tail), 0, 5};
      start = Now();
      all[k]->pair_f32(a.data(), b.data(), n, 0, row, &pair);
      both = std::min(both, Now() - start);
    }
    std::printf(
        "kernels %-8s: first pass %.2f ns, second pass %.2f ns per column, in cache, one core\n",
        all[k]->isa, side * 1e9 / static_cast<double>(n), both * 1e9 / static_cast<double>(n));
  }
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const uint64_t rows = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 256;
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 5;
  assay::MeasureKernels();
  assay::Measure(49'152, 576, rows, 1, threads, repeats);
  assay::Measure(49'152, 576, rows, 3, threads, repeats);
  // An eighth of a 248,320-column head: leaves, tiles and widths as in the whole, an eighth of the
  // memory.
  assay::Measure(31'040, 5'120, std::min<uint64_t>(rows, 128), 1, threads, repeats);
  return 0;
}
