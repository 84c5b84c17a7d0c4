// Against ExactSum (itself held against math.fsum's answers in numbers_test.cc).

#include "storage/report/fixed_sum.h"

#include <gtest/gtest.h>

#include <cmath>

#include "storage/report/python_random.h"
#include "storage/report/sums.h"

namespace assay {
namespace {

void Compare(const std::vector<double>& values, bool fixed) {
  FixedSums sums(values);
  EXPECT_EQ(sums.fixed(), fixed);
  PythonRandom random(7);
  for (int sample = 0; sample < 2000; ++sample) {
    ExactSum want;
    std::vector<uint32_t> drawn;
    sums.Start();
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t index = random.RandBelow(static_cast<uint32_t>(values.size()));
      sums.Add(index);
      want.Add(values[index]);
      drawn.push_back(index);
    }
    ASSERT_EQ(sums.Result(), want.Result()) << sample;
    sums.Start();
    sums.AddEach(drawn);
    ASSERT_EQ(sums.Result(), want.Result()) << sample;
  }
}

TEST(FixedSums, EqualExactSums) {
  PythonRandom random(3);
  std::vector<double> near, positive, mixed, wide;
  for (int i = 0; i < 300; ++i) {
    const double x = random.Random() - 0.5;
    near.push_back(std::ldexp(x, -static_cast<int>(random.RandBelow(30))));
    positive.push_back(std::ldexp(std::fabs(x), -static_cast<int>(random.RandBelow(40))));
    mixed.push_back(std::ldexp(x, -static_cast<int>(random.RandBelow(60))));
    wide.push_back(std::ldexp(x, -static_cast<int>(random.RandBelow(600))));
  }
  Compare(near, true);
  Compare(positive, true);
  Compare(mixed, true);
  Compare(wide, false);
  Compare({0, 0}, true);
  Compare({1, -1, 0x1p-60, 3}, true);
}

// Ties go to the even neighbour, and a bit far below breaks them.
TEST(FixedSums, RoundOnce) {
  const std::vector<double> values = {1, 0x1p-53, 0x1p-52, 0x1p-100, -0x1p-100};
  FixedSums sums(values);
  const auto sum = [&](std::initializer_list<size_t> indices) {
    sums.Start();
    for (const size_t index : indices) sums.Add(index);
    return sums.Result();
  };
  EXPECT_EQ(sum({0, 1}), 1.0);
  EXPECT_EQ(sum({0, 1, 3}), 1 + 0x1p-52);
  EXPECT_EQ(sum({0, 1, 4}), 1.0);
  EXPECT_EQ(sum({0, 2, 1}), 1 + 0x1p-51);
  EXPECT_EQ(sum({3, 4}), 0.0);
  EXPECT_EQ(sum({}), 0.0);
}

}  // namespace
}  // namespace assay
