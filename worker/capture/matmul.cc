#include "worker/capture/matmul.h"

#include <omp.h>

#include <chrono>
#include <dnnl.hpp>
#include <map>
#include <utility>

#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::capture {
namespace {

std::string Describe(const MatmulShape& s) {
  std::string text = "[batch";
  for (int64_t size : {s.batch, s.m, s.n, s.k}) text.append(" ").append(std::to_string(size));
  return text.append("]");
}

bool DenseBatches(const MatmulShape& s) {
  return s.a_batch == s.m * s.k && s.w_batch == s.k * s.n && s.c_batch == s.m * s.n;
}

struct Product {
  dnnl::memory a, w, c;
  dnnl::matmul primitive;
};

dnnl::memory::desc Desc(int64_t batch, int64_t rows, int64_t columns, int64_t batch_stride,
                        int64_t row_stride, int64_t column_stride) {
  using dnnl::memory;
  if (batch == 1) {
    return memory::desc({rows, columns}, memory::data_type::f32,
                        memory::dims{row_stride, column_stride});
  }
  return memory::desc({batch, rows, columns}, memory::data_type::f32,
                      memory::dims{batch_stride, row_stride, column_stride});
}

}  // namespace

struct Matmul::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  // The number of threads is fixed when a primitive is made, so it is part of the key.
  std::map<std::pair<int, MatmulShape>, Product> products;

  Product Make(const MatmulShape& s) {
    const dnnl::memory::desc a = Desc(s.batch, s.m, s.k, s.a_batch, s.a_stride, 1);
    const dnnl::memory::desc w = s.w_transposed ? Desc(s.batch, s.k, s.n, s.w_batch, 1, s.w_stride)
                                                : Desc(s.batch, s.k, s.n, s.w_batch, s.w_stride, 1);
    const dnnl::memory::desc c = Desc(s.batch, s.m, s.n, s.c_batch, s.c_stride, 1);
    dnnl::primitive_attr attributes;
    // Whatever the environment says, products stay float32.
    attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine, a, w, c, attributes);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, w, c), attributes, engine);
#endif
    return {dnnl::memory(a, engine, nullptr), dnnl::memory(w, engine, nullptr),
            dnnl::memory(c, engine, nullptr), dnnl::matmul(description)};
  }
};

Matmul::Matmul() : state_(std::make_unique<State>()) {}
Matmul::~Matmul() = default;

absl::Status Matmul::Run(const MatmulShape& shape, const float* a, const float* w, float* c) {
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0 || shape.k == 0) return absl::OkStatus();
  if (shape.a_stride != shape.k ||
      (!shape.w_transposed && (shape.w_stride != shape.n || shape.n < 2))) {
    return InternalError("CAPTURE_FAILED",
                         "matrix product " + Describe(shape) + ": a and plain w must be dense");
  }
  if (shape.batch > 1 && !DenseBatches(shape)) {
    // oneDNN 2.6 sums in another order when batches have gaps and K is long.
    MatmulShape one = shape;
    one.batch = 1;
    one.a_batch = one.w_batch = one.c_batch = 0;
    for (int64_t b = 0; b < shape.batch; ++b) {
      ASSAY_RETURN_IF_ERROR(
          Run(one, a + b * shape.a_batch, w + b * shape.w_batch, c + b * shape.c_batch));
    }
    return absl::OkStatus();
  }
  try {
    const std::pair<int, MatmulShape> key(omp_get_max_threads(), shape);
    auto found = state_->products.find(key);
    if (found == state_->products.end()) {
      if (state_->products.size() >= kMatmulPrimitivesMax) state_->products.clear();
      found = state_->products.emplace(key, state_->Make(shape)).first;
    }
    Product& product = found->second;
    // oneDNN's handles are not const; source and weights are only read.
    product.a.set_data_handle(const_cast<float*>(a));
    product.w.set_data_handle(const_cast<float*>(w));
    product.c.set_data_handle(c);
    const auto start = std::chrono::steady_clock::now();
    product.primitive.execute(
        state_->stream,
        {{DNNL_ARG_SRC, product.a}, {DNNL_ARG_WEIGHTS, product.w}, {DNNL_ARG_DST, product.c}});
    state_->stream.wait();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  } catch (const std::exception& e) {
    return InternalError("CAPTURE_FAILED", "matrix product " + Describe(shape) + ": " + e.what());
  }
  multiply_adds_ +=
      uint64_t(shape.batch) * uint64_t(shape.m) * uint64_t(shape.n) * uint64_t(shape.k);
  return absl::OkStatus();
}

std::string OneDnnVersion() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

std::string OneDnnIsa() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "isa_" + std::to_string(int(dnnl::get_effective_cpu_isa()));
  }
}

}  // namespace assay::capture
