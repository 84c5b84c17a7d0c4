// The engine on a real model, against rows of a float64 forward pass (tests/data/smollm2). The file
// itself is not in the tree: ASSAY_SMOLLM2_GGUF names it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "storage/base/bf16.h"
#include "storage/base/files.h"
#include "storage/format/suite.h"
#include "worker/capture/capture_test_util.h"
#include "worker/capture/weights/checkpoint.h"

namespace assay::capture {
namespace {

// Limits of the fixtures' README for a float32 engine.
constexpr double kMeanKlMost = 5e-7;
constexpr double kDifferingMost = 0.004;
constexpr double kRmsShareMost = 5e-5;

const std::vector<int64_t> kSentinels = {1, 7};

std::vector<CaptureContext> SentinelContexts() {
  auto suite = ReadSuite(Fixture("smollm2/suite"));
  EXPECT_TRUE(suite.ok()) << suite.status();
  std::vector<CaptureContext> contexts;
  if (!suite.ok()) return contexts;
  for (const SuiteContext& context : suite->contexts) {
    if (context.sentinel) contexts.push_back({context.index, context.tokens});
  }
  return contexts;
}

// The head: token_embd rounded to bf16, [vocab, hidden].
std::vector<float> Head(const std::string& path, size_t* hidden) {
  auto checkpoint = Checkpoint::Open(path, "");
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  const ModelConfig& config = (*checkpoint)->config();
  std::vector<float> head(size_t(config.vocab * config.hidden));
  EXPECT_TRUE((*checkpoint)
                  ->ReadRows("model.embed_tokens.weight", 0, uint64_t(config.vocab), head.data())
                  .ok());
  for (float& value : head) value = Bf16ToFloat(FloatToBf16(value));
  *hidden = size_t(config.hidden);
  return head;
}

std::vector<double> LogProbabilities(const uint16_t* row, const std::vector<float>& head,
                                     size_t hidden) {
  std::vector<double> x(hidden), logits(head.size() / hidden);
  for (size_t i = 0; i < hidden; ++i) x[i] = Bf16ToFloat(row[i]);
  for (size_t v = 0; v < logits.size(); ++v) {
    const float* w = head.data() + v * hidden;
    double lanes[8] = {};
    for (size_t i = 0; i < hidden; i += 8) {
      for (size_t j = 0; j < 8; ++j) lanes[j] += x[i + j] * double(w[i + j]);
    }
    for (double lane : lanes) logits[v] += lane;
  }
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - most);
  for (double& logit : logits) logit -= most + std::log(sum);
  return logits;
}

// KL(p || q) in nats from log-probabilities, as sum p (exp(-d) - 1 + d) with d = ln p - ln q: the
// plain sum of p d would drown in rounding here.
double Divergence(const std::vector<double>& p, const std::vector<double>& q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double d = p[i] - q[i];
    sum += std::exp(p[i]) * (std::expm1(-d) + d);
  }
  return sum;
}

struct Closeness {
  double mean_kl = 0;
  double differing = 0;  // share of elements
};

// Checks single elements on the way: a differing one is a neighbour in bf16, or tiny in its row.
Closeness Compare(const std::vector<uint16_t>& oracle, const std::vector<uint16_t>& engine,
                  const std::vector<float>& head, size_t hidden, size_t step) {
  Closeness result;
  EXPECT_EQ(oracle.size(), engine.size());
  const size_t rows = oracle.size() / hidden;
  size_t scored = 0;
  for (size_t r = 0; r < rows; ++r) {
    const uint16_t* a = oracle.data() + r * hidden;
    const uint16_t* b = engine.data() + r * hidden;
    double squares = 0;
    for (size_t i = 0; i < hidden; ++i) squares += std::pow(double(Bf16ToFloat(a[i])), 2);
    const double rms = std::sqrt(squares / double(hidden));
    for (size_t i = 0; i < hidden; ++i) {
      if (a[i] == b[i]) continue;
      result.differing += 1;
      const double gap = std::abs(double(Bf16ToFloat(a[i])) - double(Bf16ToFloat(b[i])));
      EXPECT_TRUE(std::abs(int(a[i]) - int(b[i])) == 1 || gap <= kRmsShareMost * rms)
          << "row " << r << " column " << i;
    }
    if (r % step != 0) continue;
    result.mean_kl +=
        Divergence(LogProbabilities(a, head, hidden), LogProbabilities(b, head, hidden));
    ++scored;
  }
  result.mean_kl /= double(scored);
  result.differing /= double(oracle.size());
  return result;
}

class SmolLm2Test : public testing::Test {
 protected:
  void SetUp() override {
    if (SmolLm2Path().empty()) GTEST_SKIP() << "ASSAY_SMOLLM2_GGUF names no model file";
  }

  CaptureRequest Request(const std::string& transform) {
    CaptureRequest request;
    request.model_path = SmolLm2Path();
    request.transform = transform;
    request.contexts = SentinelContexts();
    request.out_dir = TempFolder();
    request.threads = 2;
    return request;
  }
};

TEST_F(SmolLm2Test, RowsAreThoseOfTheFloat64Forward) {
  size_t hidden = 0;
  const std::vector<float> head = Head(SmolLm2Path(), &hidden);
  const std::map<std::string, std::string> models = {{"reference", ""},
                                                     {"int8-channel", "rtn:bits=8,group=channel"},
                                                     {"int4-g32", "rtn:bits=4,group=32"}};
  for (const auto& [name, transform] : models) {
    const CaptureRequest request = Request(transform);
    ASSERT_EQ(request.contexts.size(), kSentinels.size());
    const auto result = CaptureWith(request, 1, 1024);
    ASSERT_TRUE(result.ok()) << result.status();
    std::vector<uint16_t> oracle, engine;
    for (const CaptureOutput& output : result->outputs) {
      const auto expected =
          Bf16Tensor(Fixture("smollm2/captures/oracle64/" + name + "/" + BaseName(output.file)),
                     "hidden_states");
      const auto rows = Bf16Tensor(output.file, "hidden_states");
      oracle.insert(oracle.end(), expected.begin(), expected.end());
      engine.insert(engine.end(), rows.begin(), rows.end());
    }
    const Closeness closeness = Compare(oracle, engine, head, hidden, 1);
    std::printf("%s: mean KL(oracle64 || engine) %.3g, elements that differ %.3f %%\n",
                name.c_str(), closeness.mean_kl, 100 * closeness.differing);
    EXPECT_LE(closeness.mean_kl, kMeanKlMost) << name;
    EXPECT_LE(closeness.differing, kDifferingMost) << name;
  }
}

// Nine query heads and three key/value heads divide by none of these.
TEST_F(SmolLm2Test, FilesDoNotDependOnRanks) {
  CaptureRequest request = Request("");
  const auto expected = CaptureWith(request, 1, 1024);
  ASSERT_TRUE(expected.ok()) << expected.status();
  CaptureCounters previous = expected->counters[0];
  for (int ranks : {2, 4, 8}) {
    request.out_dir = TempFolder();
    request.threads = 1;
    const auto result = CaptureWith(request, ranks, ranks == 4 ? 1 : 1024);
    ASSERT_TRUE(result.ok()) << result.status();
    for (size_t i = 0; i < expected->outputs.size(); ++i) {
      EXPECT_EQ(result->outputs[i].sha256, expected->outputs[i].sha256) << ranks << " ranks";
    }
    CaptureCounters most;
    for (const CaptureCounters& counters : result->counters) {
      most.multiply_adds = std::max(most.multiply_adds, counters.multiply_adds);
      most.weight_bytes = std::max(most.weight_bytes, counters.weight_bytes);
    }
    EXPECT_LT(most.multiply_adds, previous.multiply_adds) << ranks;
    EXPECT_LT(most.weight_bytes, previous.weight_bytes) << ranks;
    previous = most;
  }
}

}  // namespace
}  // namespace assay::capture
