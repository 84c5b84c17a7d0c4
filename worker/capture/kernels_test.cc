#include "worker/capture/kernels.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "storage/base/status.h"
#include "worker/capture/matmul.h"
#include "worker/capture/native_engine.h"
#include "worker/capture/pieces.h"
#include "worker/capture/self_test.h"

namespace assay::capture {
namespace {

std::vector<float> Random(size_t count, unsigned seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

TEST(KernelsTest, ExpIsWithinItsStatedError) {
  double worst = 0;
  for (double x = 0; x > -87.2; x -= 0.000937) {
    const double exact = std::exp(double(float(x)));
    const double error = std::abs(double(ExpNonPositive(float(x))) - exact) / exact;
    ASSERT_FALSE(std::isnan(error)) << x;
    worst = std::max(worst, error);
  }
  EXPECT_LT(worst, std::exp2(-22.9));
  EXPECT_EQ(ExpNonPositive(0.0f), 1.0f);
  EXPECT_EQ(ExpNonPositive(-88.0f), 0.0f);
  EXPECT_EQ(ExpNonPositive(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_TRUE(std::isnan(ExpNonPositive(std::numeric_limits<float>::quiet_NaN())));
}

TEST(KernelsTest, SoftmaxIsCausalAndSumsToOne) {
  constexpr int64_t kKeys = 37, kQueries = 5, kFirst = 20;
  std::vector<float> s = Random(2 * kQueries * kKeys, 1, 4.0f);
  const std::vector<float> in = s;
  CausalSoftmaxRows(s.data(), 2 * kQueries, kKeys, kQueries, kFirst, 0, 0.5f);
  for (int64_t r = 0; r < 2 * kQueries; ++r) {
    const int64_t valid = kFirst + r % kQueries + 1;
    double sum = 0;
    for (int64_t k = 0; k < valid; ++k) sum += std::exp(0.5 * double(in[r * kKeys + k]));
    for (int64_t k = 0; k < kKeys; ++k) {
      const double p = k < valid ? std::exp(0.5 * double(in[r * kKeys + k])) / sum : 0.0;
      EXPECT_NEAR(s[r * kKeys + k], p, 1e-6 * p) << r << " " << k;
    }
  }
  s[3] = std::numeric_limits<float>::quiet_NaN();
  CausalSoftmaxRows(s.data(), 1, kKeys, kQueries, kFirst, 0, 0.5f);
  EXPECT_TRUE(std::isnan(s[0]));
}

// arch-qwen-llama 1.6: query t sees keys s with t - W < s <= t.
TEST(KernelsTest, ASlidingWindowEndsWithTheQuery) {
  constexpr int64_t kKeys = 37, kQueries = 20, kFirst = 5, kWindow = 9;
  std::vector<float> s = Random(kQueries * kKeys, 8, 4.0f);
  const std::vector<float> in = s;
  CausalSoftmaxRows(s.data(), kQueries, kKeys, kQueries, kFirst, kWindow, 0.5f);
  for (int64_t r = 0; r < kQueries; ++r) {
    const int64_t t = kFirst + r;
    const auto seen = [&](int64_t k) { return t - kWindow < k && k <= t; };
    double sum = 0;
    for (int64_t k = 0; k < kKeys; ++k) sum += seen(k) ? std::exp(0.5 * in[r * kKeys + k]) : 0;
    for (int64_t k = 0; k < kKeys; ++k) {
      const double p = seen(k) ? std::exp(0.5 * double(in[r * kKeys + k])) / sum : 0.0;
      EXPECT_NEAR(s[r * kKeys + k], p, 1e-6 * p) << r << " " << k;
    }
  }
}

// arch-qwen-llama 4: a head is normalised over its own width, after the bias and before RoPE.
TEST(KernelsTest, HeadsAreNormalisedBeforeRope) {
  constexpr int64_t kDim = 6;
  const BatchShape shape{1, 2};
  const std::vector<float> x = Random(shape.rows() * 2 * kDim, 9), bias = Random(2 * kDim, 10),
                           weight = Random(kDim, 11), cos = Random(shape.tokens * kDim / 2, 12),
                           sin = Random(shape.tokens * kDim / 2, 13);
  std::vector<float> out(x.size());
  std::vector<HeadSlot> slots(2);
  for (int64_t h = 0; h < 2; ++h) {
    slots[h].base = out.data() + h * shape.rows() * kDim;
    slots[h].block = shape.tokens;
    slots[h].column = h * kDim;
  }
  slots[1].norm = weight.data();
  slots[1].rotate = true;
  SplitHeads(x.data(), 2 * kDim, bias.data(), 0.01f, cos.data(), sin.data(), shape, kDim, slots);
  for (int64_t t = 0; t < shape.tokens; ++t) {
    std::vector<double> head(kDim);
    double squares = 0;
    for (int64_t i = 0; i < kDim; ++i) {
      EXPECT_EQ(out[t * kDim + i], x[t * 2 * kDim + i] + bias[i]);
      head[i] = double(x[(t * 2 + 1) * kDim + i]) + double(bias[kDim + i]);
      squares += head[i] * head[i];
    }
    for (int64_t i = 0; i < kDim; ++i)
      head[i] *= double(weight[i]) / std::sqrt(squares / kDim + 0.01);
    for (int64_t i = 0; i < kDim / 2; ++i) {
      const double c = cos[t * kDim / 2 + i], s = sin[t * kDim / 2 + i];
      const float* got = out.data() + (shape.rows() + t) * kDim;
      EXPECT_NEAR(got[i], head[i] * c - head[i + kDim / 2] * s, 1e-5);
      EXPECT_NEAR(got[i + kDim / 2], head[i + kDim / 2] * c + head[i] * s, 1e-5);
    }
  }
}

TEST(KernelsTest, NormAndSwiGluAgreeWithFloat64) {
  constexpr int64_t kRows = 3, kWidth = 41;
  const std::vector<float> x = Random(kRows * 2 * kWidth, 2, 3.0f), w = Random(2 * kWidth, 3);
  std::vector<float> y(kRows * kWidth);
  RmsNormRows(x.data(), w.data(), 0.1f, kRows, kWidth, y.data());
  for (int64_t r = 0; r < kRows; ++r) {
    double squares = 0;
    for (int64_t i = 0; i < kWidth; ++i) squares += std::pow(double(x[r * kWidth + i]), 2);
    const double scale = 1 / std::sqrt(squares / kWidth + double(0.1f));
    for (int64_t i = 0; i < kWidth; ++i) {
      const double expected = double(w[i]) * double(x[r * kWidth + i]) * scale;
      EXPECT_NEAR(y[r * kWidth + i], expected, 3e-7 * std::abs(expected));
    }
  }
  for (const bool biased : {false, true}) {
    SwiGluRows(x.data(), biased ? w.data() : nullptr, biased ? w.data() + kWidth : nullptr, kRows,
               kWidth, y.data());
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t i = 0; i < kWidth; ++i) {
        const double g = double(x[r * 2 * kWidth + i]) + (biased ? double(w[i]) : 0);
        const double u = double(x[(r * 2 + 1) * kWidth + i]) + (biased ? double(w[kWidth + i]) : 0);
        EXPECT_NEAR(y[r * kWidth + i], g / (1 + std::exp(-g)) * u, 2e-6 * (std::abs(g * u) + 0.1));
      }
    }
  }
}

// The order is part of the promise: (large + small) + -large loses the small one.
TEST(KernelsTest, PiecesAreAddedInOrderAndTheBiasLast) {
  const std::vector<float> pieces = {1e8f, 3.0f, -1e8f};
  const float bias = 1.0f;
  float out = 0;
  SumPieces(pieces.data(), 3, 1, 1, &bias, &out);
  EXPECT_EQ(out, ((1e8f + 3.0f) + -1e8f) + 1.0f);
  EXPECT_NE(out, 4.0f);
}

TEST(KernelsTest, HeadsSplitIntoBlocksAndMergeBack) {
  constexpr int64_t kDim = 4, kHeads = 3;
  const BatchShape shape{2, 5};
  const std::vector<float> x = Random(shape.rows() * kHeads * kDim, 5);
  std::vector<float> heads(x.size()), back(x.size());
  std::vector<HeadSlot> slots;
  for (int64_t h = 0; h < kHeads; ++h) {
    slots.push_back(
        {.base = heads.data(), .members = kHeads, .member = h, .block = 2, .column = h * kDim});
  }
  SplitHeads(x.data(), kHeads * kDim, nullptr, 0, nullptr, nullptr, shape, kDim, slots);
  MergeHeads(slots, shape, kDim, kHeads * kDim, back.data());
  EXPECT_EQ(back, x);
  // Context 1, head 2, token 4: the last block holds one position.
  const float* vector = heads.data() + (2 * kHeads * 4 + (1 * kHeads + 2) * 1 + 0) * kDim;
  EXPECT_EQ(vector[0], x[(1 * 5 + 4) * kHeads * kDim + 2 * kDim]);
}

TEST(PiecesTest, SharesCoverEveryPieceOnce) {
  ModelConfig config;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_dim = 64;
  config.ffn = 1537;
  for (int size = 1; size <= 8; ++size) {
    int64_t head = 0, column = 0;
    for (int rank = 0; rank < size; ++rank) {
      const RankShare share = ShareOf(config, rank, size);
      EXPECT_EQ(share.heads.begin, head);
      EXPECT_EQ(share.ffn.begin, column);
      head = share.heads.end;
      column = share.ffn.end;
      for (const HeadGroup& group : share.groups) {
        for (int64_t h = group.heads.begin; h < group.heads.end; ++h) {
          EXPECT_EQ(h / 3, group.kv_head);
        }
      }
    }
    EXPECT_EQ(head, 9);
    EXPECT_EQ(column, 1537);
  }
}

TEST(MatmulTest, AgreesWithFloat64AndCountsProducts) {
  constexpr int64_t kM = 5, kN = 7, kK = 33;
  const std::vector<float> a = Random(kM * kK, 6), w = Random(kN * kK, 7);
  std::vector<float> c(kM * kN);
  Matmul matmul;
  const MatmulShape shape{
      .m = kM, .n = kN, .k = kK, .a_stride = kK, .w_stride = kK, .c_stride = kN};
  ASSERT_TRUE(matmul.Run(shape, a.data(), w.data(), c.data()).ok());
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < kK; ++k) sum += double(a[i * kK + k]) * double(w[j * kK + k]);
      EXPECT_NEAR(c[i * kN + j], sum, 1e-5);
    }
  }
  EXPECT_EQ(matmul.multiply_adds(), uint64_t(kM * kN * kK));
}

// Values of a block of queries: the first keys of every context, so with gaps between contexts.
TEST(MatmulTest, BatchesWithGapsGiveTheBitsOfSingleProducts) {
  constexpr int64_t kBatch = 2, kM = 17, kN = 64, kK = 600, kGap = 3 * kN;
  const std::vector<float> a = Random(kBatch * kM * kK, 8);
  const std::vector<float> w = Random(kBatch * (kK * kN + kGap), 9);
  MatmulShape shape{.m = kM, .n = kN, .k = kK, .a_stride = kK, .w_stride = kN, .c_stride = kN};
  shape.w_transposed = false;
  Matmul matmul;
  std::vector<float> together(kBatch * kM * kN), alone(kBatch * kM * kN);
  for (int64_t b = 0; b < kBatch; ++b) {
    ASSERT_TRUE(matmul
                    .Run(shape, a.data() + b * kM * kK, w.data() + b * (kK * kN + kGap),
                         alone.data() + b * kM * kN)
                    .ok());
  }
  const uint64_t products = matmul.multiply_adds();
  shape.batch = kBatch;
  shape.a_batch = kM * kK;
  shape.w_batch = kK * kN + kGap;
  shape.c_batch = kM * kN;
  ASSERT_TRUE(matmul.Run(shape, a.data(), w.data(), together.data()).ok());
  EXPECT_EQ(together, alone);
  EXPECT_EQ(matmul.multiply_adds(), 2 * products);
}

TEST(SelfTestTest, DigestRepeatsAndIsPartOfTheIdentity) {
  const auto digest = SelfTestDigest();
  ASSERT_TRUE(digest.ok()) << digest.status();
  omp_set_num_threads(2);
  EXPECT_EQ(*SelfTestDigest(), *digest);
  const Json identity = NativeEngine().Identity();
  EXPECT_EQ(identity.value("self_test", ""), *digest);
  for (const char* field : {"engine", "engine_version", "libtorch", "onednn", "isa"}) {
    EXPECT_TRUE(identity.contains(field)) << field;
  }
}

TEST(EngineTest, NonFiniteRowsAreNamed) {
  std::vector<uint16_t> rows(12, 0x3f80);
  EXPECT_TRUE(CheckFinite(rows, 4, 3).ok());
  for (uint16_t bad : {0x7f80, 0xff80, 0x7fc0}) {
    rows[9] = bad;
    const absl::Status status = CheckFinite(rows, 4, 3);
    EXPECT_EQ(ReasonOf(status), "NON_FINITE_HIDDEN");
    EXPECT_NE(MessageOf(status).find("context 3 row 2"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace assay::capture
