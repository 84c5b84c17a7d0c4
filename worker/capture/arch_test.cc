// The engine against tiny checkpoints of each family with goldens made by transformers
// (tests/data/arch).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "storage/base/bf16.h"
#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"
#include "worker/capture/capture_test_util.h"
#include "worker/capture/native_engine.h"
#include "worker/capture/rope.h"
#include "worker/capture/weights/checkpoint.h"
#include "worker/collective/collective.h"

namespace assay::capture {
namespace {

// README of the fixtures: a float32 engine within 1e-4 of hidden_f64 is right.
constexpr double kTolerance = 1e-4;

struct Case {
  const char* model;
  const char* golden;
  std::vector<int> sequences;
  bool has_residuals;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"arch/llama", "arch/llama/golden.safetensors", {1, 2}, true},
      {"arch/llama3-rope-tied", "arch/llama3-rope-tied/golden.safetensors", {0, 1, 2}, true},
      {"arch/gguf/llama3-rope-tied.bf16.gguf",
       "arch/gguf/llama3-rope-tied.bf16.safetensors",
       {1, 2},
       false},
      {"arch/llama-w4a16", "arch/llama-w4a16/golden.safetensors", {0, 1}, false},
      {"arch/qwen2-sharded", "arch/qwen2-sharded/golden.safetensors", {0, 1, 2}, true},
      {"arch/qwen2-sliding", "arch/qwen2-sliding/golden.safetensors", {0, 1, 2}, true},
      {"arch/qwen3", "arch/qwen3/golden.safetensors", {0, 1, 2}, true},
      {"arch/qwen3-yarn-tied", "arch/qwen3-yarn-tied/golden.safetensors", {0, 1}, true},
      {"arch/gguf/qwen2-sharded.bf16.gguf", "arch/gguf/qwen2-sharded.bf16.safetensors", {2}, false},
      {"arch/gguf/qwen3-yarn-tied.bf16.gguf",
       "arch/gguf/qwen3-yarn-tied.bf16.safetensors",
       {1},
       false}};
  return cases;
}

std::string Sequence(int s, const char* tensor) { return "seq" + std::to_string(s) + "." + tensor; }

CaptureRequest RequestFor(const Case& c, const std::string& out) {
  CaptureRequest request;
  request.model_path = Fixture(c.model);
  request.out_dir = out;
  request.threads = 1;
  for (int s : c.sequences) {
    request.contexts.push_back({s, TokenTensor(Fixture(c.golden), Sequence(s, "input_ids"))});
  }
  return request;
}

std::string TapPath(const std::string& out, const std::string& tap, int s) {
  return JoinPath(out, "tap_" + tap + "_000" + std::to_string(s) + ".safetensors");
}

std::string HiddenPath(const std::string& out, int s) {
  return JoinPath(out, "hidden_000" + std::to_string(s) + ".safetensors");
}

template <typename T>
double LargestDifference(const std::vector<float>& a, const T* b, size_t count) {
  EXPECT_EQ(a.size(), count);
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), count); ++i) {
    const double difference = std::abs(double(a[i]) - double(b[i]));
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

// What is stored is each value rounded once: no bf16 number lies closer, and of two that lie as
// close it is the even one.
void ExpectRoundedToNearestEven(const std::vector<uint16_t>& stored,
                                const std::vector<float>& exact) {
  ASSERT_LT(stored.size(), exact.size());  // the last row is not stored
  ASSERT_FALSE(stored.empty());
  for (size_t i = 0; i < stored.size(); ++i) {
    const auto distance = [&](uint16_t bits) {
      return std::abs(double(Bf16ToFloat(bits)) - double(exact[i]));
    };
    const uint16_t bits = stored[i];
    const double next = std::min(distance(uint16_t(bits + 1)), distance(uint16_t(bits - 1)));
    ASSERT_TRUE(distance(bits) < next || (distance(bits) == next && bits % 2 == 0))
        << "element " << i << ": " << Bf16ToFloat(bits) << " for " << exact[i];
  }
}

class ArchTest : public testing::TestWithParam<int> {};

TEST_P(ArchTest, FinalHiddenAgreesWithFloat64) {
  for (const Case& c : Cases()) {
    CaptureRequest request = RequestFor(c, TempFolder());
    request.taps = {"final_norm"};
    const auto result = CaptureWith(request, GetParam(), 1024);
    ASSERT_TRUE(result.ok()) << c.model << ": " << result.status();
    for (int s : c.sequences) {
      const auto golden = F64Tensor(Fixture(c.golden), Sequence(s, "hidden_f64"));
      const auto tapped = F32Tensor(TapPath(request.out_dir, "final_norm", s), "tap");
      EXPECT_LE(LargestDifference(tapped, golden.data(), golden.size()), kTolerance)
          << c.model << " sequence " << s;
      ExpectRoundedToNearestEven(Bf16Tensor(HiddenPath(request.out_dir, s), "hidden_states"),
                                 tapped);
    }
  }
}

TEST(ArchTest, EveryLayersResidualAgrees) {
  for (const Case& c : Cases()) {
    if (!c.has_residuals) continue;
    CaptureRequest request = RequestFor(c, TempFolder());
    auto checkpoint = Checkpoint::Open(request.model_path, "");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const int64_t layers = (*checkpoint)->config().layers;
    request.taps = {"embedding"};
    for (int64_t l = 0; l < layers; ++l) {
      request.taps.push_back("layers." + std::to_string(l) + ".residual");
      request.taps.push_back("layers." + std::to_string(l) + ".attn");
      request.taps.push_back("layers." + std::to_string(l) + ".mlp");
    }
    const auto result = CaptureWith(request, 1, 1024);
    ASSERT_TRUE(result.ok()) << result.status();
    for (int s : c.sequences) {
      const auto golden = F32Tensor(Fixture(c.golden), Sequence(s, "residual"));
      const size_t one = golden.size() / size_t(layers + 1);
      std::vector<float> stream = F32Tensor(TapPath(request.out_dir, "embedding", s), "tap");
      EXPECT_EQ(LargestDifference(stream, golden.data(), one), 0.0);
      for (int64_t l = 0; l < layers; ++l) {
        const std::string layer = "layers." + std::to_string(l);
        const auto residual = F32Tensor(TapPath(request.out_dir, layer + ".residual", s), "tap");
        EXPECT_LE(LargestDifference(residual, golden.data() + (l + 1) * one, one), kTolerance)
            << c.model << " sequence " << s << " layer " << l;
        const auto attention = F32Tensor(TapPath(request.out_dir, layer + ".attn", s), "tap");
        const auto mlp = F32Tensor(TapPath(request.out_dir, layer + ".mlp", s), "tap");
        ASSERT_EQ(attention.size(), stream.size());
        ASSERT_EQ(mlp.size(), stream.size());
        for (size_t i = 0; i < stream.size(); ++i) stream[i] = (stream[i] + attention[i]) + mlp[i];
        EXPECT_EQ(stream, residual) << c.model << " layer " << l;
      }
    }
  }
}

// Contexts that cross blocks of queries, windows and yarn's original length; the expected rows are
// a NumPy reference's. Two contexts of one length make the products batches with gaps.
TEST_P(ArchTest, LongContextsAgreeWithFloat64) {
  const std::string golden = Fixture("arch/long.safetensors");
  const std::string wide = TempFolder();  // qwen2-sliding with a window wider than a block
  auto config = ReadJsonFile(Fixture("arch/qwen2-sliding/config.json"));
  ASSERT_TRUE(config.ok()) << config.status();
  (*config)["sliding_window"] = 300;
  ASSERT_TRUE(WriteFile(JoinPath(wide, "config.json"), config->dump()).ok());
  ASSERT_TRUE(WriteFile(JoinPath(wide, "model.safetensors"),
                        FileBytes(Fixture("arch/qwen2-sliding/model.safetensors")))
                  .ok());
  for (const auto& [key, path] :
       {std::pair<std::string, std::string>{"llama", Fixture("arch/llama")},
        {"qwen2-sliding", Fixture("arch/qwen2-sliding")},
        {"qwen2-sliding-300", wide},
        {"qwen3-yarn-tied", Fixture("arch/qwen3-yarn-tied")}}) {
    CaptureRequest request;
    request.model_path = path;
    request.out_dir = TempFolder();
    request.taps = {"final_norm"};
    request.contexts.push_back({0, TokenTensor(golden, key + ".input_ids")});
    request.contexts.push_back(request.contexts[0]);
    request.contexts[1].index = 1;
    std::rotate(request.contexts[1].tokens.begin(), request.contexts[1].tokens.begin() + 7,
                request.contexts[1].tokens.end());
    const auto result = CaptureWith(request, GetParam(), 2048);
    ASSERT_TRUE(result.ok()) << key << ": " << result.status();
    const auto tapped = F32Tensor(TapPath(request.out_dir, "final_norm", 0), "tap");
    const auto rows = TokenTensor(golden, key + ".rows");
    const auto expected = F64Tensor(golden, key + ".hidden_f64");
    const size_t width = expected.size() / rows.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto row = tapped.begin() + ptrdiff_t(size_t(rows[i]) * width);
      EXPECT_LE(LargestDifference({row, row + ptrdiff_t(width)}, &expected[i * width], width),
                kTolerance)
          << key << " row " << rows[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ArchTest, testing::Values(1, 8));

TEST(ArchTest, YarnScalesCosinesAndSines) {
  auto checkpoint = Checkpoint::Open(Fixture("arch/qwen3-yarn-tied"), "");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const ModelConfig& config = (*checkpoint)->config();
  EXPECT_DOUBLE_EQ(config.rope.attention_factor, 1.1386294361119891);  // 0.1 ln 4 + 1
  const RopeTable table = MakeRopeTable(RopeFrequencies(config), config.rope.attention_factor, 2);
  EXPECT_EQ(table.cos[0], 1.1386294361119891f);
  EXPECT_EQ(table.sin[0], 0.0f);
  // Frequency 0 is 1: kept by the ramp.
  EXPECT_EQ(table.cos[8], float(std::cos(1.0) * 1.1386294361119891));
}

TEST(ArchTest, RopeFrequenciesAreTorchs) {
  for (const char* model : {"arch/llama", "arch/llama3-rope-tied", "arch/qwen2-sharded",
                            "arch/qwen2-sliding", "arch/qwen3", "arch/qwen3-yarn-tied"}) {
    auto checkpoint = Checkpoint::Open(Fixture(model), "");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const auto golden =
        F32Tensor(Fixture(std::string(model) + "/golden.safetensors"), "rope.inv_freq");
    EXPECT_EQ(RopeFrequencies((*checkpoint)->config()), golden) << model;
  }
}

// Every group size, batching and thread count gives the same files.
TEST(ArchTest, FilesDoNotDependOnRanksBatchesOrThreads) {
  struct Way {
    int ranks;
    size_t batch_tokens;
    int threads;
  };
  for (const Case& c : Cases()) {
    CaptureRequest request = RequestFor(c, TempFolder());
    // A few contexts of one length, so that batches really group them.
    const std::vector<int32_t> tokens = request.contexts.back().tokens;
    for (int i = 1; i <= 4; ++i) {
      std::vector<int32_t> turned = tokens;
      std::rotate(turned.begin(), turned.begin() + i, turned.end());
      request.contexts.push_back({10 + i, turned});
    }
    const auto expected = CaptureWith(request, 1, 1024);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_NE(expected->outputs[0].sha256, expected->outputs[1].sha256);
    for (const Way& way : {Way{1, 1, 1}, Way{1, 250, 3}, Way{2, 1024, 1}, Way{4, 1, 1},
                           Way{8, 300, 1}, Way{3, 1024, 2}}) {
      CaptureRequest other = request;
      other.out_dir = TempFolder();
      other.threads = way.threads;
      std::reverse(other.contexts.begin(), other.contexts.end());
      const auto result = CaptureWith(other, way.ranks, way.batch_tokens);
      ASSERT_TRUE(result.ok()) << result.status();
      for (const CaptureOutput& output : expected->outputs) {
        EXPECT_EQ(FileBytes(output.file), FileBytes(JoinPath(other.out_dir, BaseName(output.file))))
            << c.model << " " << way.ranks << " ranks, batches of " << way.batch_tokens << ", "
            << way.threads << " threads";
      }
    }
  }
}

TEST(ArchTest, WorkFallsWithTheNumberOfRanks) {
  const Case& c = Cases()[0];
  CaptureRequest request = RequestFor(c, TempFolder());
  uint64_t previous_work = ~uint64_t{0}, previous_bytes = ~uint64_t{0};
  for (int ranks : {1, 2, 4, 8}) {
    const auto result = CaptureWith(request, ranks, 1024);
    ASSERT_TRUE(result.ok()) << result.status();
    uint64_t most_work = 0, most_bytes = 0;
    for (const CaptureCounters& counters : result->counters) {
      EXPECT_GT(counters.multiply_adds, 0u);
      most_work = std::max(most_work, counters.multiply_adds);
      most_bytes = std::max(most_bytes, counters.weight_bytes);
    }
    EXPECT_LT(most_work, previous_work) << ranks;
    EXPECT_LT(most_bytes, previous_bytes) << ranks;
    previous_work = most_work;
    previous_bytes = most_bytes;
  }
}

// The counters are the plan's numbers, worked out here from the model's sizes.
TEST(ArchTest, CountersAreExactForOneRank) {
  const Case& c = Cases()[0];
  CaptureRequest request = RequestFor(c, TempFolder());
  auto checkpoint = Checkpoint::Open(request.model_path, "");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const ModelConfig& m = (*checkpoint)->config();
  const int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  const int64_t matrices = (q + 2 * kv) * m.hidden + m.hidden * q + 3 * m.ffn * m.hidden;
  uint64_t work = 0;
  for (const CaptureContext& context : request.contexts) {
    const int64_t t = int64_t(context.tokens.size());  // below the query block
    work += uint64_t(m.layers * (t * matrices + 2 * t * t * q));
  }
  const auto result = CaptureWith(request, 1, 1024);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->counters[0].multiply_adds, work);
  EXPECT_EQ(result->counters[0].weight_bytes,
            uint64_t(4 * (m.layers * (matrices + 2 * m.hidden) + m.hidden)));
}

// A loaded model stays while its files do, and no longer.
TEST(ArchTest, AModelReplacedUnderItsPathIsLoadedAnew) {
  const std::string folder = TempFolder();
  for (const char* name : {"config.json", "model.safetensors"}) {
    const std::string bytes = FileBytes(Fixture(std::string("arch/llama/") + name));
    ASSERT_TRUE(WriteFile(JoinPath(folder, name), bytes).ok());
  }
  CaptureRequest request = RequestFor(Cases()[0], TempFolder());
  request.model_path = folder;
  auto alone = CreateCollective({});
  ASSERT_TRUE(alone.ok());
  const auto digest = [&](NativeEngine& engine) {
    const auto outputs = engine.Capture(request, **alone, {}, nullptr);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.ok() ? outputs->at(0).sha256 : std::string();
  };
  NativeEngine kept;
  const std::string before = digest(kept);
  EXPECT_EQ(digest(kept), before);
  std::string bytes = FileBytes(JoinPath(folder, "model.safetensors"));
  bytes[bytes.size() - 1000] ^= 0x40;  // another weight, same size
  ASSERT_TRUE(WriteFile(JoinPath(folder, "model.safetensors"), bytes).ok());
  NativeEngine fresh;
  const std::string after = digest(fresh);
  EXPECT_NE(after, before);
  EXPECT_EQ(digest(kept), after);
}

TEST(ArchTest, RefusalsNameContextAndPosition) {
  const Case& c = Cases()[0];
  CaptureRequest request = RequestFor(c, TempFolder());
  request.contexts[1].tokens[7] = 1 << 20;
  auto result = CaptureWith(request, 2, 1024);
  EXPECT_EQ(ReasonOf(result.status()), "TOKEN_OUT_OF_RANGE");
  EXPECT_NE(MessageOf(result.status()).find("context 2 position 7"), std::string::npos)
      << result.status();
  request = RequestFor(c, TempFolder());
  request.taps = {"layers.99.mlp"};
  EXPECT_EQ(ReasonOf(CaptureWith(request, 1, 1024).status()), "UNKNOWN_TAP");
  request = RequestFor(c, TempFolder());
  request.contexts[0].tokens.resize(1);
  EXPECT_EQ(ReasonOf(CaptureWith(request, 1, 1024).status()), "CONTEXT_TOO_SHORT");
  request = RequestFor(c, TempFolder());
  request.out_dir = JoinPath(request.out_dir, "missing");
  EXPECT_EQ(ReasonOf(CaptureWith(request, 1, 1024).status()), "FILE_MISSING");
}

}  // namespace
}  // namespace assay::capture
