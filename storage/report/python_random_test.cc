// Expected values: CPython (qwen-suites 10).

#include "storage/report/python_random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace assay {
namespace {

using ::testing::ElementsAre;

template <typename F>
auto Times(int n, F&& f) {
  std::vector<decltype(f())> out;
  for (int i = 0; i < n; ++i) out.push_back(f());
  return out;
}

TEST(PythonRandom, Words) {
  PythonRandom one(1);
  EXPECT_THAT(Times(5, [&] { return one.GetRandBits(32); }),
              ElementsAre(577090037u, 2444712010u, 3639700191u, 3445702192u, 3280387012u));
  PythonRandom other(20260815);
  EXPECT_EQ(other.GetRandBits(32), 376346594u);
}

TEST(PythonRandom, RandBelow) {
  const auto draws = [](uint32_t n) {
    PythonRandom random(1);
    return Times(12, [&] { return random.RandBelow(n); });
  };
  EXPECT_THAT(draws(330), ElementsAre(68, 291, 32, 130, 60, 253, 230, 241, 194, 107, 48, 249));
  EXPECT_THAT(draws(41), ElementsAre(8, 36, 4, 16, 7, 31, 28, 30, 24, 13, 6, 31));
  EXPECT_THAT(draws(842), ElementsAre(137, 582, 821, 782, 64, 261, 120, 507, 779, 460, 483, 667));
  EXPECT_THAT(draws(32), ElementsAre(8, 4, 16, 7, 31, 28, 30, 24, 13, 6, 31, 1));
}

// The same draws as one by one, over ends of the state and with other draws between.
TEST(PythonRandom, RandBelowEach) {
  PythonRandom one(20260815), each(20260815);
  for (const uint32_t n : {1u, 2u, 330u, 842u, 1024u, 0x80000001u, 0xffffffffu}) {
    for (const size_t count : {0, 1, 5, 623, 624, 2000}) {
      std::vector<uint32_t> draws(count);
      each.RandBelowEach(n, draws);
      for (const uint32_t draw : draws) ASSERT_EQ(draw, one.RandBelow(n));
      ASSERT_EQ(each.Word(), one.Word());
    }
  }
}

TEST(PythonRandom, RandomAndChoices) {
  PythonRandom random(1);
  EXPECT_THAT(Times(3, [&] { return random.Random(); }),
              ElementsAre(0.13436424411240122, 0.8474337369372327, 0.763774618976614));
  PythonRandom fresh(1);
  EXPECT_THAT(fresh.ChoiceIndices(32, 8), ElementsAre(4, 27, 24, 8, 15, 14, 20, 25));
}

TEST(PythonRandom, ShuffleAndBothSampleMethods) {
  PythonRandom random(20260814);
  std::vector<int> items(10);
  std::iota(items.begin(), items.end(), 0);
  random.Shuffle(&items);
  EXPECT_THAT(items, ElementsAre(3, 1, 6, 7, 9, 4, 2, 0, 8, 5));
  EXPECT_THAT(random.SampleIndices(100, 5), ElementsAre(89, 66, 15, 13, 19));  // set of positions
  EXPECT_THAT(random.SampleIndices(20, 5), ElementsAre(8, 1, 6, 4, 0));        // copied pool
}

}  // namespace
}  // namespace assay
