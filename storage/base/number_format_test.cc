#include "storage/base/number_format.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

// Expected text printed by CPython 3.11's repr().
TEST(PythonFloatTest, SwitchesNotationWherePythonDoes) {
  EXPECT_EQ(PythonFloat(1.0), "1.0");
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(1e-5), "1e-05");
  EXPECT_EQ(PythonFloat(6.885741865332628e-05), "6.885741865332628e-05");
  EXPECT_EQ(PythonFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(-123.456), "-123.456");
  EXPECT_EQ(PythonFloat(-0.0), "-0.0");
  EXPECT_EQ(PythonFloat(5e-324), "5e-324");
  EXPECT_EQ(PythonFloat(0.1), "0.1");
}

// Examples of RFC 8785 appendix B.
TEST(EcmaScriptNumberTest, Rfc8785AppendixB) {
  EXPECT_EQ(EcmaScriptNumber(0.0), "0");
  EXPECT_EQ(EcmaScriptNumber(-0.0), "0");
  EXPECT_EQ(EcmaScriptNumber(5e-324), "5e-324");
  EXPECT_EQ(EcmaScriptNumber(1.7976931348623157e308), "1.7976931348623157e+308");
  EXPECT_EQ(EcmaScriptNumber(9007199254740992.0), "9007199254740992");
  EXPECT_EQ(EcmaScriptNumber(295147905179352830000.0), "295147905179352830000");
  EXPECT_EQ(EcmaScriptNumber(9.999999999999997e22), "9.999999999999997e+22");
  EXPECT_EQ(EcmaScriptNumber(1e21), "1e+21");
  EXPECT_EQ(EcmaScriptNumber(0.000001), "0.000001");
  EXPECT_EQ(EcmaScriptNumber(1e-7), "1e-7");
  EXPECT_EQ(EcmaScriptNumber(333333333.33333325), "333333333.33333325");
}

}  // namespace
}  // namespace assay
