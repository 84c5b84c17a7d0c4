// What scheduling costs for each unit, in rows looked at, does not grow with the number of units.

#include <gtest/gtest.h>

#include "server/core/core_scale_queue.h"

namespace assay {
namespace {

TEST(CoreScale, RowsLookedAtForEachUnitAreFewHoweverManyWait) {
  const double few = ScaleQueue(32).Work();
  const double many = ScaleQueue(1024).Work();
  EXPECT_LT(few, 8);
  EXPECT_LT(many, few * 1.25 + 0.5) << "at 32 times as many units";
}

}  // namespace
}  // namespace assay
