//===- units_test.cpp - Times as people read them -------------------------===//

#include "heddle/Support/Units.h"

#include <gtest/gtest.h>

using heddle::formatSeconds;

TEST(Units, Times) {
  EXPECT_EQ(formatSeconds(0), "0 ms");
  EXPECT_EQ(formatSeconds(0.003711), "3.711 ms");
  EXPECT_EQ(formatSeconds(0.0037), "3.7 ms");
  EXPECT_EQ(formatSeconds(12.346), "12.35 s");
  EXPECT_EQ(formatSeconds(12.346, 3), "12.3 s");
  EXPECT_EQ(formatSeconds(9.9994), "9999 ms");
}

// The unit is that of the rounded time.
TEST(Units, RoundedToTenSeconds) {
  EXPECT_EQ(formatSeconds(9.9997), "10 s");
  EXPECT_EQ(formatSeconds(9.9997, 5), "9999.7 ms");
}

TEST(Units, WithoutExponents) {
  EXPECT_EQ(formatSeconds(12345), "12340 s");
  EXPECT_EQ(formatSeconds(12346), "12350 s");
  EXPECT_EQ(formatSeconds(9.876, 2), "9900 ms");
  EXPECT_EQ(formatSeconds(1.234e-9), "0.000001234 ms");
}
