// A head's logit scale and bias through assay replay's library: found, recorded, applied, refused.

#include <stdlib.h>

#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/safetensors.h"
#include "storage/report/positions.h"
#include "worker/group/offline_replay.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kVocab = 49152, kHidden = 576, kRows = 2 * 63;

std::string Env(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

std::span<const uint8_t> Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4};
}

class AffineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "assay-affine-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
    const std::string data = Env("ASSAY_SOURCE_DIR") + "/tests/data/smollm2";
    ranks_.threads = 1;
    ranks_.rank_program = Env("ASSAY_BIN_DIR") + "/assay-rank";
    request_.reference = data + "/captures/oracle64/reference";
    request_.candidates = {{"c", data + "/captures/oracle64/int8-channel"}};
    request_.suite_dir = data + "/suite";
    request_.out = dir_ + "/out";
    for (uint64_t v = 0; v < kVocab; ++v) {
      bias_.push_back(static_cast<float>(std::sin(v * 0.37) * 4));
      other_.push_back(static_cast<float>(std::cos(v * 0.11) * 3));
    }
  }
  void TearDown() override { RemoveTree(dir_).IgnoreError(); }

  // A head whose rows are 0, or 1 in the first element of even ids; with a bias or without.
  std::string Head(const std::string& name, bool even, const std::vector<float>* bias) {
    std::vector<uint8_t> weights(kVocab * kHidden * 2, 0);
    const uint16_t one = FloatToBf16(1.0f);
    for (uint64_t v = 0; even && v < kVocab; v += 2) memcpy(&weights[v * kHidden * 2], &one, 2);
    SafetensorsBuilder builder;
    builder.Add("lm_head.weight", DType::kBF16, {kVocab, kHidden}, weights);
    if (bias != nullptr) builder.Add("lm_head.bias", DType::kF32, {bias->size()}, Bytes(*bias));
    return Put(name, builder);
  }
  std::string BiasFile(const std::string& name, const std::vector<float>& bias) {
    SafetensorsBuilder builder;
    builder.Add("b", DType::kF32, {bias.size()}, Bytes(bias));
    return Put(name, builder);
  }
  std::string Put(const std::string& name, const SafetensorsBuilder& builder) {
    const std::string path = dir_ + "/" + name + ".safetensors";
    EXPECT_TRUE(WriteFile(path, builder.Build()).ok());
    return path;
  }

  absl::StatusOr<OfflineReplayResult> Replay() {
    OfflineHooks hooks;
    hooks.note = [this](std::string_view text) { notes_.emplace_back(text); };
    notes_.clear();
    return OfflineReplay(request_, ranks_, hooks);
  }
  PositionArrays Arrays(const std::string& head) {
    const auto arrays = ReadPositionFolder(request_.out + "/c/positions/" + head, kRows);
    EXPECT_TRUE(arrays.ok()) << arrays.status();
    return *arrays;
  }

  std::string dir_;
  OfflineRanks ranks_;
  OfflineReplayRequest request_;
  std::vector<float> bias_, other_;
  std::vector<std::string> notes_;
};

// KL of softmax(cap tanh(a / cap)) against that of b, in 80 bits.
double PlainKl(const std::vector<float>& a, const std::vector<float>& b, long double cap) {
  const auto logit = [cap](float x) {
    return cap > 0 ? cap * tanhl(x / cap) : static_cast<long double>(x);
  };
  long double sum_a = 0, sum_b = 0, kl = 0;
  for (const float x : a) sum_a += expl(logit(x));
  for (const float x : b) sum_b += expl(logit(x));
  for (size_t v = 0; v < a.size(); ++v) {
    const long double p = expl(logit(a[v])) / sum_a;
    kl += p * (logit(a[v]) - logl(sum_a) - logit(b[v]) + logl(sum_b));
  }
  return static_cast<double>(kl);
}

// Rows do not matter to heads of zeros: every logit is the bias.
TEST_F(AffineTest, BiasBesideTheWeightIsAddedAndSaid) {
  request_.head = Head("biased", false, &bias_);
  request_.candidate_heads = {{"c", Head("plain", false, nullptr)}};
  request_.candidate_head_biases = {{"", BiasFile("other", other_) + ":b"}};
  request_.softcap = 2.5;
  const auto result = Replay();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(notes_, ::testing::Contains(HasSubstr("lm_head.bias")));
  const double want = PlainKl(bias_, other_, 2.5L);
  ASSERT_GT(want, 0.1);
  const PositionArrays own = Arrays("own"), shared = Arrays("shared");
  for (uint64_t i = 0; i < kRows; ++i) {
    EXPECT_NEAR(own[F64Output::kKlRefCand][i], want, 1e-12);
    EXPECT_EQ(shared[F64Output::kKlRefCand][i], 0.0);
  }
  const Json& report = result->candidates[0].report;
  const auto digest = [](const std::vector<float>& values) {
    return Sha256Hex({reinterpret_cast<const char*>(values.data()), values.size() * 4});
  };
  const Json& heads = report.at("heads").at("own");
  EXPECT_EQ(heads.at("reference_head").at("bias_sha256"), digest(bias_));
  EXPECT_EQ(heads.at("candidate_head").at("bias_sha256"), digest(other_));
  EXPECT_EQ(report.at("numeric").at("softcap"), 2.5);
  // Left out when asked: then nothing tells the tokens apart.
  request_.head_bias = "none";
  request_.candidate_heads.clear();
  request_.candidate_head_biases.clear();
  const auto flat = Replay();
  ASSERT_TRUE(flat.ok()) << flat.status();
  EXPECT_FALSE(flat->candidates[0]
                   .report.at("heads")
                   .at("shared")
                   .at("reference_head")
                   .contains("bias_sha256"));
  EXPECT_NEAR(Arrays("shared")[F64Output::kNllRef][0], std::log(double{kVocab}), 1e-9);
}

// NLL = ln(V/2 (1 + e^(s x))) less the token's logit, x the first element of the row.
TEST_F(AffineTest, ScaleMultipliesTheProduct) {
  constexpr double kScale = 0.3;
  request_.head = Head("even", true, nullptr);
  request_.logit_scale = kScale;
  const auto result = Replay();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(
      result->candidates[0].report.at("heads").at("shared").at("reference_head").at("logit_scale"),
      kScale);
  const PositionArrays arrays = Arrays("shared");
  const auto file = SafetensorsFile::Open(request_.reference + "/hidden_0001.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorView rows = *(*file)->Find(kHiddenTensorName);
  const Json tokens =
      ParseJson(*ReadFile(request_.suite_dir + "/tokens/context-0001.json", 1 << 20), "").value();
  for (size_t row = 0; row < 63; ++row) {
    uint16_t bits;
    memcpy(&bits, rows.bytes.data() + row * kHidden * 2, 2);
    const double x = kScale * static_cast<double>(Bf16ToFloat(bits));
    const bool even = tokens.at(row + 1).get<int>() % 2 == 0;
    EXPECT_NEAR(arrays[F64Output::kNllRef][row],
                std::log(kVocab / 2.0 * (1 + std::exp(x))) - (even ? x : 0), 1e-12)
        << row;
  }
}

TEST_F(AffineTest, BadBiasesAreRefusedByName) {
  request_.head = Head("plain", false, nullptr);
  const auto refused = [&](const std::string& bias) {
    request_.head_bias = bias;
    return Replay().status();
  };
  EXPECT_EQ(ReasonOf(refused(dir_ + "/nowhere.safetensors")), "HEAD_MISSING");
  EXPECT_EQ(ReasonOf(refused(request_.head)), "HEAD_INVALID");  // its only tensor is a matrix
  const absl::Status shape = refused(BiasFile("short", {1, 2, 3}));
  EXPECT_EQ(ReasonOf(shape), "HEAD_INVALID");
  EXPECT_THAT(MessageOf(shape), HasSubstr("short.safetensors"));
  std::vector<float> bad = bias_;
  bad[4711] = NAN;
  const absl::Status nan = refused(BiasFile("nan", bad));
  EXPECT_EQ(ReasonOf(nan), "NON_FINITE_INPUT");
  EXPECT_THAT(MessageOf(nan), HasSubstr("4711"));
  request_.head_bias.clear();
  request_.candidate_head_biases = {{"c", "none"}};
  EXPECT_EQ(ReasonOf(Replay().status()), "LABEL_UNKNOWN");
}

}  // namespace
}  // namespace assay
