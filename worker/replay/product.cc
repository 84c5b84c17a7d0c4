#include "worker/replay/product.h"

#include <omp.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>

#include "storage/base/bf16.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "worker/replay/rows.h"

namespace assay {
namespace {

using dnnl::memory;

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// Runs `body`, in which oneDNN may throw, as if this thread were the only one.
template <typename Body>
absl::Status Guarded(const char* what, const Body& body) {
  const int outer = omp_get_max_threads();
  omp_set_num_threads(1);
  absl::Status status;
  try {
    body();
  } catch (const std::exception& e) {
    status = InternalError("PRODUCT_FAILED", std::string("oneDNN, ") + what + ": " + e.what());
  }
  omp_set_num_threads(outer);
  return status;
}

memory::data_type TypeOf(ReplayBackend backend) {
  return backend == ReplayBackend::kCpuBf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

struct Shape {
  int64_t rows, columns, width;
  bool bf16;
  bool operator<(const Shape& o) const {
    return std::tie(rows, columns, width, bf16) < std::tie(o.rows, o.columns, o.width, o.bf16);
  }
};

struct Prepared {
  dnnl::matmul::primitive_desc desc;
  dnnl::matmul primitive;
  std::string kernel;  // oneDNN's name of it
};

// The dense output and the widths of both operands select the kernel; on AVX-512 it is always the
// "brg" one, never the general one whose summing order differs.
Prepared Prepare(const Shape& shape) {
  const memory::data_type type = shape.bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc a({shape.rows, shape.width}, type, memory::dims{shape.width, 1});
  const memory::desc b({shape.width, shape.columns}, type, memory::format_tag::any);
  const memory::desc c({shape.rows, shape.columns}, memory::data_type::f32,
                       memory::dims{shape.columns, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  Prepared out;
  out.desc = dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, Engine());
  out.primitive = dnnl::matmul(out.desc);
  out.kernel = out.desc.impl_info_str();
  return out;
}

// Kernels by shape, made once. A replay uses a handful: two leaf sizes, the row tile and its
// remainders.
const Prepared& PreparedFor(const Shape& shape) {
  static std::mutex mutex;
  static std::map<Shape, Prepared>* const all = new std::map<Shape, Prepared>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = all->find(shape);
  if (found != all->end()) return found->second;
  return all->emplace(shape, Prepare(shape)).first->second;
}

// Rows for which the weights' layout is chosen; others use the same layout or are refused.
constexpr int64_t kLayoutRows = 64;

// With AMX oneDNN takes another kernel, which sums in another order, for products of few elements:
// those get rows of zeros up to kLayoutRows, for which every leaf that is wide enough takes AMX and
// every narrower one does not, whatever its rows.
constexpr uint64_t kAmxColumnsMin = 256;

constexpr char kPlainIsa[] = "avx512_core_bf16";

bool UsesAmx() { return dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx; }

}  // namespace

absl::Status PinOnednn() {
  static const absl::Status status = []() -> absl::Status {
    const char* wanted = std::getenv("ASSAY_REPLAY_ISA");
    const std::string isa = wanted == nullptr || *wanted == '\0' ? kAmxIsa : wanted;
    if (isa != kPlainIsa && isa != kAmxIsa) {
      return InvalidError("ISA_UNKNOWN", "ASSAY_REPLAY_ISA is \"" + isa + "\"; it may be " +
                                             kAmxIsa +
                                             " (the default: AMX where there is one) or " +
                                             kPlainIsa + " (never AMX)");
    }
    const bool amx = isa == kAmxIsa;
    dnnl::set_max_cpu_isa(amx ? dnnl::cpu_isa::avx512_core_amx : dnnl::cpu_isa::avx512_core_bf16);
    // The call fails where oneDNN was used before; all is well when it used no more than wanted.
    if (amx || !UsesAmx()) return absl::OkStatus();
    return PreconditionError("ISA_NOT_PINNED",
                             "oneDNN was used with AMX before the replay could pin it to "
                             "AVX512-BF16; start the replay first or set "
                             "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16");
  }();
  return status;
}

std::string OnednnVersion() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

std::string OnednnIsa() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2";
    case dnnl::cpu_isa::avx512_core:
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return kAmxIsa;
    default:
      return "other";
  }
}

bool HasAvx512Bf16() {
  return UsesAmx() || dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_bf16;
}

struct PackedLeaf::State {
  uint64_t columns = 0, width = 0;
  ReplayBackend backend = ReplayBackend::kCpuF32;
  std::string kernel;
  memory weights;
  uint64_t bytes = 0;
};

PackedLeaf::PackedLeaf(std::unique_ptr<State> state) : state_(std::move(state)) {}
PackedLeaf::~PackedLeaf() = default;
uint64_t PackedLeaf::columns() const { return state_->columns; }
uint64_t PackedLeaf::bytes() const { return state_->bytes; }
const uint8_t* PackedLeaf::data() const {
  return static_cast<const uint8_t*>(state_->weights.get_data_handle());
}

absl::StatusOr<std::unique_ptr<PackedLeaf>> PackedLeaf::Pack(std::span<const uint8_t> rows,
                                                             uint64_t columns, uint64_t width,
                                                             ReplayBackend backend) {
  auto state = std::make_unique<State>();
  state->columns = columns;
  state->width = width;
  state->backend = backend;
  ASSAY_RETURN_IF_ERROR(Guarded("packing a head", [&] {
    const bool bf16 = backend == ReplayBackend::kCpuBf16;
    const auto n = static_cast<int64_t>(columns), k = static_cast<int64_t>(width);
    const Prepared& prepared = PreparedFor({kLayoutRows, n, k, bf16});
    state->kernel = prepared.kernel;
    std::vector<uint16_t> narrow(columns * width);
    std::memcpy(narrow.data(), rows.data(), narrow.size() * 2);
    std::vector<float> wide;
    void* source = narrow.data();
    if (!bf16) {
      wide.resize(narrow.size());
      for (size_t i = 0; i < narrow.size(); ++i) wide[i] = Bf16ToFloat(narrow[i]);
      source = wide.data();
    }
    // The head is [columns, width]; the product wants its transpose.
    memory plain({{k, n}, TypeOf(backend), memory::dims{1, k}}, Engine(), source);
    state->weights = memory(prepared.desc.weights_desc(), Engine());
    state->bytes = prepared.desc.weights_desc().get_size();
    dnnl::stream stream(Engine());
    dnnl::reorder(plain, state->weights).execute(stream, plain, state->weights);
    stream.wait();
  }));
  return std::unique_ptr<PackedLeaf>(new PackedLeaf(std::move(state)));
}

absl::Status PackedLeaf::Multiply(const void* hidden, uint64_t rows, float* out) const {
  if (!UsesAmx() || state_->columns >= kAmxColumnsMin || rows % kLayoutRows == 0) {
    return MultiplyRows(hidden, rows, out);
  }
  const uint64_t padded = (rows / kLayoutRows + 1) * kLayoutRows;
  const uint64_t row_bytes = state_->width * (state_->backend == ReplayBackend::kCpuBf16 ? 2 : 4);
  AlignedBuffer in, product;
  in.Resize(padded * row_bytes);
  std::memcpy(in.data(), hidden, rows * row_bytes);
  std::memset(in.data() + rows * row_bytes, 0, (padded - rows) * row_bytes);
  product.Resize(padded * state_->columns * sizeof(float));
  ASSAY_RETURN_IF_ERROR(MultiplyRows(in.data(), padded, reinterpret_cast<float*>(product.data())));
  std::memcpy(out, product.data(), rows * state_->columns * sizeof(float));
  return absl::OkStatus();
}

absl::Status PackedLeaf::MultiplyRows(const void* hidden, uint64_t rows, float* out) const {
  absl::Status layout;
  ASSAY_RETURN_IF_ERROR(Guarded("multiplying a tile", [&] {
    const Prepared& p = PreparedFor(
        {static_cast<int64_t>(rows), static_cast<int64_t>(state_->columns),
         static_cast<int64_t>(state_->width), state_->backend == ReplayBackend::kCpuBf16});
    if (p.kernel != state_->kernel || p.desc.weights_desc() != state_->weights.get_desc()) {
      layout = InternalError("PRODUCT_FAILED",
                             "oneDNN takes kernel " + p.kernel + " for " + std::to_string(rows) +
                                 " rows and " + state_->kernel +
                                 " for others, or another head layout; their bits could differ");
      return;
    }
    memory a(p.desc.src_desc(), Engine(), const_cast<void*>(hidden));
    memory c(p.desc.dst_desc(), Engine(), out);
    thread_local std::vector<uint8_t> scratch;
    const size_t need = p.desc.scratchpad_desc().get_size() + 64;
    if (scratch.size() < need) scratch.resize(need);
    const uintptr_t at = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63};
    // An address rounded up inside the buffer. NOLINTNEXTLINE(performance-no-int-to-ptr)
    memory s(p.desc.scratchpad_desc(), Engine(), reinterpret_cast<void*>(at));
    dnnl::stream stream(Engine());
    p.primitive.execute(stream, {{DNNL_ARG_SRC, a},
                                 {DNNL_ARG_WEIGHTS, state_->weights},
                                 {DNNL_ARG_DST, c},
                                 {DNNL_ARG_SCRATCHPAD, s}});
    stream.wait();
  }));
  return layout;
}

}  // namespace assay
