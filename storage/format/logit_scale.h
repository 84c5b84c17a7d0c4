// The factor of a head's products that a run may ask for (docs/metric.md).

#ifndef ASSAY_STORAGE_FORMAT_LOGIT_SCALE_H_
#define ASSAY_STORAGE_FORMAT_LOGIT_SCALE_H_

namespace assay {

// Far beyond what models use (1/16 to 16), and small enough that a scaled product stays finite.
inline constexpr double kLogitScaleMin = 1e-6, kLogitScaleMax = 1e6;

inline bool IsLogitScale(double scale) {  // false for NaN
  return scale >= kLogitScaleMin && scale <= kLogitScaleMax;
}

}  // namespace assay

#endif  // ASSAY_STORAGE_FORMAT_LOGIT_SCALE_H_
