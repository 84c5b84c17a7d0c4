// Sums, quantiles and the tail histogram against CPython, NumPy and published values.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "storage/report/quantile.h"
#include "storage/report/sums.h"
#include "storage/report/tail.h"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(ExactSum, RoundsOnce) {  // expected: CPython math.fsum
  EXPECT_EQ(ExactSumOf(std::vector<double>(10, 0.1)), 1.0);
  EXPECT_EQ(ExactSumOf(std::vector<double>{1e100, 1.0, -1e100, 1e-100, 1e50, -1.0, -1e50}), 1e-100);
  // A tie that something far below breaks upwards, and one that it breaks downwards.
  EXPECT_EQ(ExactSumOf(std::vector<double>{0x1p53, 1.0, 0x1p-100}), 0x1.0000000000001p53);
  EXPECT_EQ(ExactSumOf(std::vector<double>{0x1p53, -0.5, -0x1p-54}), 0x1.fffffffffffffp52);
  EXPECT_EQ(ExactSumOf(std::vector<double>{0x1p53, 1.0}), 0x1p53);
}

TEST(CompensatedSum, DependsOnOrderAsPythonDoes) {  // expected: CPython 3.12 sum
  CompensatedSum sum;
  for (const double v : {1e16, 1.0, -1e16}) sum.Add(v);
  EXPECT_EQ(sum.Result(), 1.0);
  CompensatedSum tenth;
  for (int i = 0; i < 10; ++i) tenth.Add(0.1);
  EXPECT_EQ(tenth.Result(), 1.0);
  // The exact sum is one bit lower here; plain addition gives 0.
  const std::vector<double> values = {0.1, 0.001, -1e16, 0.3, 1e16};
  CompensatedSum differs;
  for (const double v : values) differs.Add(v);
  EXPECT_EQ(differs.Result(), 0.401);
  EXPECT_EQ(ExactSumOf(values), 0.40099999999999997);
}

TEST(Quantile, InterpolatesLinearly) {
  const std::vector<double> v = {1, 2, 4, 8};
  EXPECT_EQ(LinearQuantile(v, 0), 1);
  EXPECT_EQ(LinearQuantile(v, 1), 8);
  EXPECT_EQ(LinearQuantile(v, 0.5), 3);
  EXPECT_EQ(LinearQuantile(v, 0.25), 1.75);
  EXPECT_EQ(LinearQuantile(std::vector<double>{5}, 0.99), 5);
}

// Expected: numpy.quantile and torch.quantile, which agree. The other branch gives another last
// bit.
TEST(Quantile, BelowAHalfStartsFromTheLowerNeighbour) {
  EXPECT_EQ(LinearQuantile(std::vector<double>{0.0006, 0.0088, 0.0328}, 0.1),
            0.0022400000000000002);
  EXPECT_EQ(LinearQuantile(std::vector<double>{0.0011, 0.0034, 0.0039, 0.014, 0.022}, 0.05),
            0.0015600000000000002);
  EXPECT_EQ(
      LinearQuantile(std::vector<double>{0.047, 0.0823, 0.1193, 0.121, 0.1435, 0.1716, 0.411}, 0.9),
      0.2673600000000001);
  EXPECT_EQ(LinearQuantile(std::vector<double>{0.9664, 7.4102, 9.9954, 23.2033, 29.2873, 86.1748,
                                               104.4445, 105.3211, 107.4578, 131.4274, 141.4407,
                                               186.366, 305.8224, 500.2904},
                           0.33),
            45.784675);
}

TEST(Quantile, InfinityReachesOnlyItsNeighbours) {
  const std::vector<double> v = {0, 1, 2, kInf, kInf};
  EXPECT_EQ(LinearQuantile(v, 0.5), 2);  // exactly the third: w = 0
  EXPECT_EQ(LinearQuantile(v, 0.6), kInf);
  EXPECT_EQ(LinearQuantile(v, 0.9), kInf);
}

TEST(Quantile, Medians) {
  const std::vector<double> v = {1, 2, 4, 8};
  EXPECT_EQ(LowerMedian(v), 2);
  EXPECT_EQ(MiddleMedian(v), 3);
  EXPECT_EQ(LowerMedian(std::vector<double>{1, 2, 9}), 2);
}

TEST(Tail, DecadeEdgesAreExact) {
  const auto& edges = TailEdges();
  EXPECT_EQ(edges[0], 1e-12);
  EXPECT_EQ(edges[40], 1e-11);
  EXPECT_EQ(edges[320], 0.0001);
  EXPECT_EQ(edges[400], 0.01);
  EXPECT_EQ(edges[480], 1.0);
  EXPECT_EQ(edges[560], 100.0);
}

TEST(Tail, BucketsAreLeftClosed) {
  const std::vector<double> v = {0.0, 9e-13, 1e-12, 1.0, 99.0, 100.0, kInf};
  const auto counts = TailCounts(v);
  EXPECT_EQ(counts.size(), 562u);
  EXPECT_EQ(counts[0], 2u);
  EXPECT_EQ(counts[1], 1u);
  EXPECT_EQ(counts[481], 1u);
  EXPECT_EQ(counts[560], 1u);
  EXPECT_EQ(counts[561], 2u);
}

TEST(Tail, ExceedanceIsStrict) {
  const std::vector<double> v = {1e-4, 0.5, 1.0, 2.0};
  const Json json = ExceedanceJson(v);
  EXPECT_EQ(json[0].at("positions"), 3);  // above 1e-4
  EXPECT_EQ(json[4].at("positions"), 1);  // above 1
  EXPECT_EQ(json[4].at("fraction"), 0.25);
  EXPECT_EQ(json[5].at("positions"), 0);
}

}  // namespace
}  // namespace assay
