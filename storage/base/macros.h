// Early-return macros for absl::Status and absl::StatusOr.

#ifndef ASSAY_STORAGE_BASE_MACROS_H_
#define ASSAY_STORAGE_BASE_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ASSAY_CONCAT_INNER_(a, b) a##b
#define ASSAY_CONCAT_(a, b) ASSAY_CONCAT_INNER_(a, b)

// Returns from the enclosing function when `expr` (an absl::Status) is not OK.
#define ASSAY_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (absl::Status assay_status_ = (expr); !assay_status_.ok()) return assay_status_; \
  } while (false)

// Evaluates `expr` (an absl::StatusOr<T>); returns its status when not OK, else moves the value
// into `lhs`.
#define ASSAY_ASSIGN_OR_RETURN(lhs, expr) \
  ASSAY_ASSIGN_OR_RETURN_IMPL_(ASSAY_CONCAT_(assay_or_, __LINE__), lhs, expr)
#define ASSAY_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return std::move(tmp).status();     \
  lhs = std::move(tmp).value()

#endif  // ASSAY_STORAGE_BASE_MACROS_H_
