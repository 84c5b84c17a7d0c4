// Doubles as text, in the three forms that artefacts use. All take the shortest digits that read
// back to the same double.

#ifndef ASSAY_STORAGE_BASE_NUMBER_FORMAT_H_
#define ASSAY_STORAGE_BASE_NUMBER_FORMAT_H_

#include <string>

namespace assay {

// Python's repr(float): fixed notation for 1e-4 <= |x| < 1e16, "1.0" for integral values, "1e-05"
// otherwise; "nan", "inf", "-inf" are the caller's business (json writes NaN, Infinity, -Infinity).
std::string PythonFloat(double value);

// ECMAScript Number::toString, as RFC 8785 requires: "1", "0.000001", "1e-7", "1e+21". -0 gives
// "0". `value` is finite.
std::string EcmaScriptNumber(double value);

// C99 hexadecimal, exact: "0x1.8p+1". For logs and equality evidence.
std::string HexFloat(double value);

}  // namespace assay

#endif  // ASSAY_STORAGE_BASE_NUMBER_FORMAT_H_
