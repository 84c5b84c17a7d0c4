#include "storage/base/mapped_pages.h"
#include "tests/bench/replay_rows.h"
#include "tests/bench/replay_runs.h"

namespace assay::bench {
namespace {

// Bytes that a replay leaves to its caller for each position.
constexpr uint64_t kOutputBytes = kReplayF64Count * 8 + kReplayI32Count * 4;

// Rows as a rank reads them: a fresh copy for every request, freed when nobody needs it.
void ReadAfresh(Data* data) {
  for (size_t o = 0; o < data->plan.operands.size(); ++o) {
    SharedMemory* const rows = data->rows[o].get();
    const Shape shape = data->shape;
    data->plan.operands[o].rows = [rows, shape](size_t) -> absl::StatusOr<RowBlock> {
      auto copy =
          std::make_shared<std::vector<uint8_t>>(rows->bytes().begin(), rows->bytes().end());
      rows->Forget();
      return RowBlock{*copy, RowType::kBf16, shape.rows, shape.hidden, copy};
    };
  }
}

// Resident bytes beyond what the process needs before it has any data.
Json PeakOfReplay(Data* data, int threads) {
  return InChild([&]() -> Json {
    auto single = CreateCollective({}).value();
    WholeReplay replay(data->plan, threads, *single);
    const uint64_t before = PeakMemory();
    replay.Run();
    return {{"before", before}, {"peak", PeakMemory()}};
  });
}

}  // namespace

Json LongContextRow(const Flags& flags) {
  Shape shape;
  shape.vocab = Number(flags, "--vocab");
  shape.hidden = Number(flags, "--hidden");
  uint64_t extra[2];
  Json out;
  for (const int k : {0, 1}) {
    shape.rows = k == 0 ? 2'048 : Number(flags, "--positions");
    Data data(shape);
    ReadAfresh(&data);
    data.head.Forget();
    for (auto& rows : data.rows) rows->Forget();
    const Json peak = PeakOfReplay(&data, 2);
    const uint64_t grown = peak["peak"].get<uint64_t>() - peak["before"].get<uint64_t>();
    extra[k] = grown;
    out["grown_mib"].push_back(static_cast<double>(grown) / (1 << 20));
  }
  // As read and as multiplied, two operands; and the outputs.
  const uint64_t more = shape.rows - 2'048;
  const uint64_t own = more * (2 * 2 * shape.hidden * 2 + kOutputBytes);
  const double measured = static_cast<double>(extra[1]) - static_cast<double>(extra[0]);
  out["rows_and_outputs_mib"] = static_cast<double>(own) / (1 << 20);
  out["positions_x_vocabulary_mib"] = static_cast<double>(shape.rows * shape.vocab * 4 >> 20);
  out["ratio"] = {{"wall", measured / static_cast<double>(own)}};
  return out;
}

Json MemoryRow(const Flags& flags) {
  Shape shape;
  shape.vocab = Number(flags, "--vocab");
  shape.hidden = Number(flags, "--hidden");
  shape.rows = Number(flags, "--positions");
  shape.contexts = 4;
  Data data(shape);
  ReadAfresh(&data);
  data.plan.heads[0].release = ReleaseMappedPages;
  data.head.Forget();
  for (auto& rows : data.rows) rows->Forget();
  const Json peak = PeakOfReplay(&data, 2);
  const uint64_t operands = data.rows.size();
  const uint64_t bound = shape.vocab * shape.hidden * 2 + operands * 64 * shape.vocab * 4 +
                         operands * 2 * shape.rows * shape.hidden * 2 + (uint64_t{96} << 20);
  return {
      {"ratio",
       {{"wall", static_cast<double>(peak["peak"].get<uint64_t>()) / static_cast<double>(bound)}}},
      {"peak_mib", peak["peak"].get<uint64_t>() >> 20},
      {"before_mib", peak["before"].get<uint64_t>() >> 20},
      {"bound_mib", bound >> 20}};
}

}  // namespace assay::bench
