#include "worker/replay/cuda/blaslt.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay::cuda {

#define ASSAY_LT_FUNCTIONS(X)             \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetVersion)                   \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulAlgoConfigGetAttribute) \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmul)

struct LtFunctions {
#define ASSAY_LT_MEMBER(name) decltype(&::name) name = nullptr;
  ASSAY_LT_FUNCTIONS(ASSAY_LT_MEMBER)
#undef ASSAY_LT_MEMBER
};

namespace {

// The canonical shape: a large tile of a large head.
constexpr uint64_t kRows = 2048, kColumns = 31'040, kWidth = 4096;
constexpr int kCandidates = 32;

// ASSAY_CUBLASLT, then what the loader finds, then the usual places.
std::vector<std::string> Places() {
  std::vector<std::string> out;
  if (const char* own = std::getenv("ASSAY_CUBLASLT"); own != nullptr && *own != '\0') {
    return {own};
  }
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    out.emplace_back(name);
    out.push_back(std::string("/usr/local/cuda/lib64/") + name);
  }
  return out;
}

absl::StatusOr<LtFunctions> Load() {
  void* library = nullptr;
  std::string tried;
  for (const std::string& place : Places()) {
    library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    tried += (tried.empty() ? "" : ", ") + place;
  }
  if (library == nullptr) {
    return PreconditionError("BACKEND_UNAVAILABLE",
                             "backend cuda-bf16 needs cuBLASLt, which was not found as " + tried +
                                 "; install it, set ASSAY_CUBLASLT to its path, or use a CPU "
                                 "backend");
  }
  LtFunctions out;
  const char* missing = nullptr;
#define ASSAY_LT_LOAD(name)                                              \
  out.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (out.name == nullptr) missing = #name;
  ASSAY_LT_FUNCTIONS(ASSAY_LT_LOAD)
#undef ASSAY_LT_LOAD
  if (missing == nullptr) return out;
  return PreconditionError("BACKEND_UNAVAILABLE", std::string("cuBLASLt has no ") + missing +
                                                      "; install version 12 or 13");
}

const absl::StatusOr<LtFunctions>& Functions() {
  static const absl::StatusOr<LtFunctions> functions = Load();
  return functions;
}

absl::Status Check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return InternalError("DEVICE_FAILED", std::string(call) + " failed with cuBLAS status " +
                                            std::to_string(static_cast<int>(status)));
}

}  // namespace

// Row-major [n, k] is column-major [k, n]: out^T [columns, rows] = head^T^T x hidden^T.
struct BlasLt::Shape {
  Shape(const LtFunctions& lt, uint64_t rows, uint64_t columns, uint64_t width) : lt_(lt) {
    const auto ld = [](uint64_t n) { return static_cast<int64_t>(n); };
    ok = lt.cublasLtMatrixLayoutCreate(&head, CUDA_R_16BF, width, columns, ld(width)) ==
             CUBLAS_STATUS_SUCCESS &&
         lt.cublasLtMatrixLayoutCreate(&hidden, CUDA_R_16BF, width, rows, ld(width)) ==
             CUBLAS_STATUS_SUCCESS &&
         lt.cublasLtMatrixLayoutCreate(&out, CUDA_R_32F, columns, rows, ld(columns)) ==
             CUBLAS_STATUS_SUCCESS;
  }
  ~Shape() {
    for (cublasLtMatrixLayout_t layout : {head, hidden, out}) {
      if (layout != nullptr) lt_.cublasLtMatrixLayoutDestroy(layout);
    }
  }
  Shape(const Shape&) = delete;
  Shape& operator=(const Shape&) = delete;

  cublasLtMatrixLayout_t head = nullptr, hidden = nullptr, out = nullptr;
  bool ok = false;

 private:
  const LtFunctions& lt_;
};

absl::StatusOr<std::unique_ptr<BlasLt>> BlasLt::Open() {
  ASSAY_RETURN_IF_ERROR(Functions().status());
  std::unique_ptr<BlasLt> out(new BlasLt);
  out->lt_ = &*Functions();
  ASSAY_RETURN_IF_ERROR(Check(out->lt_->cublasLtCreate(&out->handle_), "cublasLtCreate"));
  out->version_ = "cublasLt " + std::to_string(out->lt_->cublasLtGetVersion());
  ASSAY_RETURN_IF_ERROR(
      Check(out->lt_->cublasLtMatmulDescCreate(&out->product_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            "cublasLtMatmulDescCreate"));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  ASSAY_RETURN_IF_ERROR(
      Check(out->lt_->cublasLtMatmulDescSetAttribute(out->product_, CUBLASLT_MATMUL_DESC_TRANSA,
                                                     &transposed, sizeof transposed),
            "cublasLtMatmulDescSetAttribute"));
  ASSAY_RETURN_IF_ERROR(out->Pin());
  return out;
}

BlasLt::~BlasLt() {
  shapes_.clear();
  if (product_ != nullptr) lt_->cublasLtMatmulDescDestroy(product_);
  if (handle_ != nullptr) lt_->cublasLtDestroy(handle_);
}

absl::Status BlasLt::Pin() {
  const Shape canonical(*lt_, kRows, kColumns, kWidth);
  if (!canonical.ok) return InternalError("DEVICE_FAILED", "cublasLtMatrixLayoutCreate failed");
  cublasLtMatmulPreference_t preference = nullptr;
  ASSAY_RETURN_IF_ERROR(
      Check(lt_->cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
  const uint64_t workspace = 0;
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE;
  lt_->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &workspace, sizeof workspace);
  lt_->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                            &reductions, sizeof reductions);
  std::vector<cublasLtMatmulHeuristicResult_t> found(kCandidates);
  int count = 0;
  const cublasStatus_t asked = lt_->cublasLtMatmulAlgoGetHeuristic(
      handle_, product_, canonical.head, canonical.hidden, canonical.out, canonical.out, preference,
      kCandidates, found.data(), &count);
  lt_->cublasLtMatmulPreferenceDestroy(preference);
  ASSAY_RETURN_IF_ERROR(Check(asked, "cublasLtMatmulAlgoGetHeuristic"));
  for (int i = 0; i < count; ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS || found[i].workspaceSize != 0) continue;
    std::string text;
    const auto value = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, const char* name) {
      uint32_t number = 0;  // some attributes have 2 bytes
      size_t written = 0;
      const auto got = lt_->cublasLtMatmulAlgoConfigGetAttribute(&found[i].algo, attribute, &number,
                                                                 sizeof number, &written);
      if (got != CUBLAS_STATUS_SUCCESS) {
        uint16_t small = 0;
        lt_->cublasLtMatmulAlgoConfigGetAttribute(&found[i].algo, attribute, &small, sizeof small,
                                                  &written);
        number = small;
      }
      text += (text.empty() ? "" : " ") + std::string(name) + "=" + std::to_string(number);
      return number;
    };
    value(CUBLASLT_ALGO_CONFIG_ID, "id");
    value(CUBLASLT_ALGO_CONFIG_TILE_ID, "tile");
    value(CUBLASLT_ALGO_CONFIG_STAGES_ID, "stages");
    const uint32_t split = value(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, "splitk");
    const uint32_t reduction = value(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, "reduction");
    value(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, "swizzle");
    value(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, "custom");
    value(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, "inner");
    value(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, "cluster");
    if (split > 1 || reduction != CUBLASLT_REDUCTION_SCHEME_NONE) continue;
    algorithm_ = found[i].algo;
    algorithm_text_ = text;
    return absl::OkStatus();
  }
  return PreconditionError("KERNEL_NOT_INVARIANT",
                           version_ +
                               " offers no bf16 product without workspace and split K on "
                               "this device; use a CPU backend");
}

absl::StatusOr<const BlasLt::Shape*> BlasLt::ShapeFor(uint64_t rows, uint64_t columns,
                                                      uint64_t width) {
  std::unique_ptr<Shape>& shape = shapes_[{rows, columns, width}];
  if (shape != nullptr) return shape.get();
  auto fresh = std::make_unique<Shape>(*lt_, rows, columns, width);
  if (!fresh->ok) return InternalError("DEVICE_FAILED", "cublasLtMatrixLayoutCreate failed");
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t takes = lt_->cublasLtMatmulAlgoCheck(
      handle_, product_, fresh->head, fresh->hidden, fresh->out, fresh->out, &algorithm_, &result);
  if (takes != CUBLAS_STATUS_SUCCESS || result.workspaceSize != 0) {
    return PreconditionError(
        "KERNEL_NOT_INVARIANT",
        "the pinned algorithm (" + algorithm_text_ + ") does not take products of " +
            std::to_string(rows) + " x " + std::to_string(columns) + " x " + std::to_string(width) +
            "; another could give other bits. Use a CPU backend for this head");
  }
  shape = std::move(fresh);
  return shape.get();
}

absl::Status BlasLt::Multiply(const void* hidden, const void* head, float* out, uint64_t rows,
                              uint64_t columns, uint64_t width, cudaStream_t stream) {
  ASSAY_ASSIGN_OR_RETURN(const Shape* shape, ShapeFor(rows, columns, width));
  const float one = 1, zero = 0;
  return Check(
      lt_->cublasLtMatmul(handle_, product_, &one, head, shape->head, hidden, shape->hidden, &zero,
                          out, shape->out, out, shape->out, &algorithm_, nullptr, 0, stream),
      "cublasLtMatmul");
}

}  // namespace assay::cuda
