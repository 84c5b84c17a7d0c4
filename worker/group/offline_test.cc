// Captures and replays without a server, against known answers and against damage.

#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/bf16.h"
#include "storage/base/digest.h"
#include "storage/base/files.h"
#include "storage/base/status.h"
#include "storage/format/capture.h"
#include "storage/format/safetensors.h"
#include "storage/format/suite.h"
#include "storage/report/positions.h"
#include "worker/group/offline_capture.h"
#include "worker/group/offline_replay.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kVocab = 49152, kHidden = 576;
constexpr int kTinyVocab = 320;

std::string Env(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

std::string Reason(const absl::Status& status) { return ReasonOf(status); }

class OfflineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "assay-offline-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
    source_ = Env("ASSAY_SOURCE_DIR");
    ASSERT_FALSE(source_.empty()) << "run through ctest, or set ASSAY_SOURCE_DIR and ASSAY_BIN_DIR";
    data_ = source_ + "/tests/data/smollm2";
    ranks_.threads = 1;
    ranks_.rank_program = Env("ASSAY_BIN_DIR") + "/assay-rank";
  }
  void TearDown() override { RemoveTree(dir_).IgnoreError(); }

  // A writable copy of a fixture folder.
  std::string Copy(const std::string& from, const std::string& name) {
    const std::string to = dir_ + "/" + name;
    CopyTree(from, to);
    return to;
  }
  static void CopyTree(const std::string& from, const std::string& to) {
    ASSERT_TRUE(EnsureDirectory(to).ok());
    const auto names = ListDirectory(from);
    ASSERT_TRUE(names.ok()) << names.status();
    for (const std::string& name : *names) {
      if (IsDirectory(from + "/" + name)) {
        CopyTree(from + "/" + name, to + "/" + name);
      } else {
        ASSERT_TRUE(WriteFile(to + "/" + name, *ReadFile(from + "/" + name, 1 << 28)).ok());
      }
    }
  }
  static void FlipByte(const std::string& path, size_t at) {
    std::string bytes = *ReadFile(path, 1 << 28);
    bytes.at(at < bytes.size() ? at : bytes.size() / 2) ^= 1;
    ASSERT_TRUE(WriteFile(path, bytes).ok());
  }
  static void Replace(const std::string& path, const std::string& from, const std::string& to) {
    std::string text = *ReadFile(path, 1 << 28);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    ASSERT_TRUE(WriteFile(path, text).ok());
  }

  // Every logit is 0, whatever the rows: KL 0, NLL and entropy ln V, the whole vocabulary tied.
  std::string FlatHead(DType dtype = DType::kBF16) {
    const std::string path = dir_ + "/flat-" + std::string(DTypeName(dtype)) + ".safetensors";
    const std::vector<uint8_t> zeros(kVocab * kHidden * DTypeBytes(dtype), 0);
    SafetensorsBuilder builder;
    builder.Add("weight", dtype, {kVocab, kHidden}, zeros);
    EXPECT_TRUE(WriteFile(path, builder.Build()).ok());
    return path;
  }

  OfflineReplayRequest Request() {
    OfflineReplayRequest request;
    request.reference = data_ + "/captures/oracle64/reference";
    request.candidates = {{"", data_ + "/captures/oracle64/int8-channel"}};
    request.suite_dir = data_ + "/suite";
    request.out = dir_ + "/out";
    return request;
  }

  absl::StatusOr<OfflineReplayResult> Replay(const OfflineReplayRequest& request) {
    return OfflineReplay(request, ranks_, OfflineHooks());
  }

  // A suite for the tiny Llama checkpoint, written by the rules of the published form.
  std::string TinySuite(int contexts, int length) {
    const std::string suite = dir_ + "/tiny-suite";
    EXPECT_TRUE(EnsureDirectory(suite + "/tokens").ok());
    Json rows = Json::array();
    std::string all;
    for (int c = 0; c < contexts; ++c) {
      std::vector<int32_t> tokens;
      for (int i = 0; i < length; ++i) tokens.push_back((c * 131 + i * i * 7 + 3) % kTinyVocab);
      std::string text = "[";
      for (const int32_t token : tokens) {
        text += text.size() > 1 ? ", " : "";
        text += std::to_string(token);
      }
      text += "]";
      std::string name("tokens/context-000");
      name += std::to_string(c);
      name += ".json";
      EXPECT_TRUE(WriteFile(suite + "/" + name, text).ok());
      all += Sha256Hex(text);
      std::string document("document-");
      document += std::to_string(c);
      rows.push_back({{"index", c},
                      {"stratum", "s"},
                      {"source_cluster", document},
                      {"file", name},
                      {"tokens", length},
                      {"token_sha256", Sha256Hex(text)},
                      {"calibration_shingle_hits", 0},
                      {"partition", "analysis"},
                      {"sentinel", c == 1}});
    }
    const Json manifest = {
        {"schema", "qwen38-distribution-fidelity/3"},
        {"model", "tiny"},
        {"context_length", length},
        {"scored_positions_per_context", length - 1},
        {"contexts", contexts},
        {"total_scored_positions", contexts * (length - 1)},
        {"hidden_size", 64},
        {"vocab_size", kTinyVocab},
        {"partitions", {{"analysis", contexts}, {"qualification", 0}, {"sentinels", 1}}},
        {"strata", {{"s", contexts}}},
        {"source_clusters", contexts},
        {"context_index", rows},
        {"suite_token_sha256", Sha256Hex(all)}};
    EXPECT_TRUE(WriteFile(suite + "/suite-manifest.json", manifest.dump(2)).ok());
    return suite;
  }

  std::string dir_, source_, data_;
  OfflineRanks ranks_;
};

TEST_F(OfflineTest, FlatHeadGivesWhatArithmeticSays) {
  OfflineReplayRequest request = Request();
  request.head = FlatHead();
  const auto result = Replay(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->failed, 0u);
  const std::string folder = request.out + "/int8-channel";
  const auto arrays = ReadPositionFolder(folder + "/positions/shared", 2 * 63);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  for (uint64_t i = 0; i < arrays->positions; ++i) {
    EXPECT_EQ((*arrays)[F64Output::kKlRefCand][i], 0.0);
    EXPECT_NEAR((*arrays)[F64Output::kNllRef][i], std::log(double{kVocab}), 1e-9);
    EXPECT_EQ((*arrays)[I32Output::kTop1Cand][i], 0);
    EXPECT_EQ((*arrays)[I32Output::kTiesCand][i], static_cast<int>(kVocab));
  }
  EXPECT_TRUE(FileExists(folder + "/report.json"));
  EXPECT_TRUE(FileExists(folder + "/execution.json"));
  EXPECT_FALSE(FileExists(folder + "/receipt.json"));
  EXPECT_TRUE(FileExists(request.out + "/summary.md"));
  EXPECT_FALSE(FileExists(request.out + "/" + std::string(kWorkFolderName)));
  EXPECT_THAT(*ReadFile(request.out + "/summary.md", 1 << 20), HasSubstr("UNSEALED"));
  // One shared head, no head of its own: "as served" is not claimed.
  EXPECT_FALSE(IsDirectory(folder + "/positions/own"));
  // Nothing of this machine or run is in the report.
  const std::string report = *ReadFile(folder + "/report.json", 1 << 28);
  EXPECT_EQ(report.find(dir_), std::string::npos);
}

// Half of the vocabulary has the logit x = the first element of the row, the other half 0: which
// token a row is scored on can be read off its NLL, ln(V/2 (1 + e^x)) less that token's logit.
TEST_F(OfflineTest, ARowIsScoredOnTheTokenAfterIt) {
  std::vector<uint8_t> weights(kVocab * kHidden * 2, 0);
  const uint16_t one = FloatToBf16(1.0f);
  for (uint64_t v = 0; v < kVocab; v += 2) memcpy(&weights[v * kHidden * 2], &one, 2);
  SafetensorsBuilder builder;
  builder.Add("weight", DType::kBF16, {kVocab, kHidden}, weights);
  OfflineReplayRequest request = Request();
  request.head = dir_ + "/even.safetensors";
  ASSERT_TRUE(WriteFile(request.head, builder.Build()).ok());
  const auto result = Replay(request);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto arrays = ReadPositionFolder(request.out + "/int8-channel/positions/shared", 2 * 63);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  size_t at = 0;
  for (const std::string context : {"0001", "0007"}) {  // the stored ones
    const Json tokens =
        ParseJson(*ReadFile(request.suite_dir + "/tokens/context-" + context + ".json", 1 << 20),
                  "")
            .value();
    const auto file =
        SafetensorsFile::Open(request.reference + "/hidden_" + context + ".safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    const TensorView rows = *(*file)->Find(kHiddenTensorName);
    for (size_t row = 0; row < 63; ++row, ++at) {
      uint16_t bits;
      memcpy(&bits, rows.bytes.data() + row * kHidden * 2, 2);
      const double x = Bf16ToFloat(bits);
      const bool even = tokens.at(row + 1).get<int>() % 2 == 0;
      EXPECT_NEAR((*arrays)[F64Output::kNllRef][at],
                  std::log(kVocab / 2.0 * (1 + std::exp(x))) - (even ? x : 0), 1e-9)
          << "context " << context << ", row " << row;
    }
  }
}

TEST_F(OfflineTest, TensorParallelLabelsAndUnitsChangeNoByte) {
  const std::string head = FlatHead();
  OfflineReplayRequest request = Request();
  request.head = head;
  ASSERT_TRUE(Replay(request).ok());
  const std::string want = *ReadFile(request.out + "/int8-channel/report.json", 1 << 28);
  request.out = dir_ + "/out2";
  request.unit_contexts = 1;
  request.row_tile = 7;
  request.candidates = {{"x", request.candidates[0].value}, {"self", request.reference}};
  ranks_.tp = 2;
  ASSERT_TRUE(Replay(request).ok());
  EXPECT_EQ(*ReadFile(request.out + "/x/report.json", 1 << 28), want);
}

TEST_F(OfflineTest, RoundedHeadIsDisclosed) {
  OfflineReplayRequest request = Request();
  request.head = FlatHead(DType::kF32) + ":weight";
  const auto result = Replay(request);
  ASSERT_TRUE(result.ok()) << result.status();
  const Json& head = result->candidates[0].report.at("heads").at("shared").at("reference_head");
  EXPECT_EQ(head.at("rounding"), "bf16-rne");
  EXPECT_EQ(head.at("original_dtype"), "F32");
  EXPECT_EQ(head.at("original_sha256"), Sha256Hex(std::string(kVocab * kHidden * 4, '\0')));
  EXPECT_EQ(head.at("rounded_sha256"), Sha256Hex(std::string(kVocab * kHidden * 2, '\0')));
}

TEST_F(OfflineTest, EveryDamagedInputIsNamed) {
  const std::string head = FlatHead();
  const auto expect = [&](const OfflineReplayRequest& request, const std::string& reason,
                          const std::string& file) {
    const auto result = Replay(request);
    ASSERT_FALSE(result.ok()) << file;
    EXPECT_EQ(Reason(result.status()), reason) << result.status();
    EXPECT_THAT(MessageOf(result.status()), HasSubstr(file));
  };
  for (const bool of_candidate : {false, true}) {
    const std::string name = of_candidate ? "cand" : "ref";
    for (const size_t at : {size_t{3}, size_t{20}, size_t{50000}}) {
      OfflineReplayRequest request = Request();
      request.head = head;
      std::string& input = of_candidate ? request.candidates[0].value : request.reference;
      input = Copy(input, name + std::to_string(at));
      FlipByte(input + "/hidden_0007.safetensors", at);
      expect(request, "DIGEST_MISMATCH", "hidden_0007.safetensors");
    }
  }
  OfflineReplayRequest request = Request();
  request.head = head;
  request.candidates[0].value = Copy(request.candidates[0].value, "digest");
  Replace(request.candidates[0].value + "/capture-manifest.json", "6b6d3795", "6b6d3796");
  expect(request, "DIGEST_MISMATCH", "hidden_0001.safetensors");
  request.candidates[0].value = Copy(data_ + "/captures/oracle64/q4_0", "contract");
  Replace(request.candidates[0].value + "/capture-manifest.json", "numpy float64", "numpy float65");
  expect(request, "DIGEST_MISMATCH", "capture-manifest.json");
  request.candidates[0].value = Copy(data_ + "/captures/oracle64/q4_0", "incomplete");
  Replace(request.candidates[0].value + "/capture-manifest.json", "\"complete\": true",
          "\"complete\": false");
  expect(request, "CAPTURE_INCOMPLETE", "capture-manifest.json");
  request = Request();
  request.head = head;
  request.suite_dir = Copy(request.suite_dir, "suite");
  const std::string tokens = request.suite_dir + "/tokens/context-0003.json";
  FlipByte(tokens, 1);  // a digit
  expect(request, "DIGEST_MISMATCH", "context-0003.json");
  request = Request();
  request.head = FlatHead();
  FlipByte(request.head, 0);  // the header's length
  expect(request, "SAFETENSORS_INVALID", "flat-BF16.safetensors");
  // A head that states no digest cannot be checked against one; what cannot be a weight is found.
  request.head = FlatHead();
  std::string bytes = *ReadFile(request.head, 1 << 28);
  bytes[bytes.size() - 1] = '\x7f';
  bytes[bytes.size() - 2] = '\xc0';
  ASSERT_TRUE(WriteFile(request.head, bytes).ok());
  expect(request, "NON_FINITE_INPUT", "flat-BF16.safetensors");
}

TEST_F(OfflineTest, OneBadCandidateAmongThree) {
  OfflineReplayRequest request = Request();
  request.head = FlatHead();
  const std::string bad = Copy(data_ + "/captures/oracle64/int4-g32", "bad");
  FlipByte(bad + "/hidden_0001.safetensors", 4000);
  request.candidates = {{"good", data_ + "/captures/oracle64/int8-channel"},
                        {"bad", bad},
                        {"also", data_ + "/captures/oracle64/q4_0"}};
  const auto result = Replay(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->failed, 1u);
  EXPECT_TRUE(result->statuses[0].ok());
  EXPECT_EQ(Reason(result->statuses[1]), "DIGEST_MISMATCH");
  EXPECT_TRUE(result->statuses[2].ok());
  EXPECT_TRUE(FileExists(request.out + "/also/report.json"));
  EXPECT_FALSE(FileExists(request.out + "/bad/report.json"));
  EXPECT_EQ(result->candidates[1].failed_reason, "DIGEST_MISMATCH");
}

// Rows that are not finite are found in the ranks; their candidate alone is refused, by label and
// file.
TEST_F(OfflineTest, NonFiniteCandidateDoesNotStopTheOthers) {
  OfflineReplayRequest request = Request();
  request.head = FlatHead();
  const std::string bad = Copy(data_ + "/captures/oracle64/int4-g32", "bad");
  const std::string file = bad + "/hidden_0007.safetensors";
  std::string bytes = *ReadFile(file, 1 << 20);
  const std::string before = Sha256Hex(bytes);
  bytes[bytes.size() - 1] = '\x7f';
  bytes[bytes.size() - 2] = '\xc0';  // a NaN in the last row
  ASSERT_TRUE(WriteFile(file, bytes).ok());
  Replace(bad + "/capture-manifest.json", before, Sha256Hex(bytes));
  request.candidates.push_back({"bad", bad});
  const auto result = Replay(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->failed, 1u);
  EXPECT_EQ(Reason(result->statuses[1]), "NON_FINITE_INPUT");
  EXPECT_THAT(MessageOf(result->statuses[1]), HasSubstr("candidate bad"));
  EXPECT_THAT(MessageOf(result->statuses[1]), HasSubstr("hidden_0007.safetensors"));
  EXPECT_TRUE(FileExists(request.out + "/int8-channel/report.json"));
}

TEST_F(OfflineTest, RefusesWhatDoesNotFitTogether) {
  const auto reason = [&](const OfflineReplayRequest& request) {
    return Reason(Replay(request).status());
  };
  OfflineReplayRequest request = Request();
  request.head = dir_ + "/nothing.safetensors";
  EXPECT_EQ(reason(request), "HEAD_MISSING");
  request = Request();
  request.head = data_ + "/captures/oracle64/reference/hidden_0001.safetensors";
  EXPECT_EQ(reason(request), "TOKEN_OUT_OF_RANGE");  // a head of 63 rows
  request = Request();
  request.candidates.push_back(request.candidates[0]);
  EXPECT_EQ(reason(request), "LABEL_DUPLICATE");
  request = Request();
  request.candidates[0].label = "a/b";
  EXPECT_EQ(reason(request), "LABEL_INVALID");
  request = Request();
  request.candidate_heads = {{"stranger", "x"}};
  EXPECT_EQ(reason(request), "LABEL_UNKNOWN");
  request = Request();
  request.filter = "all";
  EXPECT_EQ(reason(request), "CONTEXT_MISSING");
  request = Request();
  ASSERT_TRUE(EnsureDirectory(request.out + "/old").ok());
  ASSERT_TRUE(WriteFile(request.out + "/old/receipt.json", "{}").ok());
  EXPECT_EQ(reason(request), "OUT_SEALED");
  request = Request();
  request.out = dir_ + "/busy";
  const auto held = WorkFolder::Lock(request.out);
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(reason(request), "OUT_BUSY");
}

// What a head takes lies behind the final norm; rows from before it are refused on either side.
TEST_F(OfflineTest, RowsOfAnotherCutAreRefused) {
  OfflineReplayRequest request = Request();
  const std::string moved = dir_ + "/moved";
  std::filesystem::copy(request.reference, moved, std::filesystem::copy_options::recursive);
  const std::string path = moved + "/capture-manifest.json";
  Json manifest = Json::parse(*ReadFile(path, 1 << 24));
  manifest["cut_point"] = "before_final_rmsnorm";
  ASSERT_TRUE(WriteFile(path, manifest.dump()).ok());
  request.reference = moved;
  const absl::Status refused = Replay(request).status();
  EXPECT_EQ(Reason(refused), "CUT_POINT_DIFFERS");
  EXPECT_THAT(MessageOf(refused), HasSubstr("before_final_rmsnorm"));
  request = Request();
  request.candidates = {{"moved", moved}};
  EXPECT_EQ(Reason(Replay(request).status()), "CUT_POINT_DIFFERS");
}

// A capture by the tiny checkpoint: whole, continued after a loss, and refused where it must be.
TEST_F(OfflineTest, CaptureIsContinuedAndItsFilesAreVerified) {
  if (!FileExists(Env("ASSAY_BIN_DIR") + "/libassay_capture.so")) GTEST_SKIP() << "no engine built";
  OfflineCaptureRequest request;
  request.model = {source_ + "/tests/data/arch/llama", ""};
  request.suite_dir = TinySuite(5, 24);
  request.out = dir_ + "/whole";
  request.unit_contexts = 2;
  const auto whole = OfflineCapture(request, ranks_, OfflineHooks());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->captured, 5u);
  const auto suite = ReadSuite(request.suite_dir);
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_TRUE(OpenCapture(request.out, *suite, "all", true).ok());
  EXPECT_EQ(ListDirectory(request.out)->size(), 6u);

  // Interrupted after the first unit, then continued on two ranks: the same files and content.
  request.out = dir_ + "/parts";
  OfflineHooks stop;
  uint64_t seen = 0;
  stop.progress = [&](std::string_view, std::string_view, uint64_t done, uint64_t) { seen = done; };
  stop.interrupted = [&] { return seen >= 2; };
  EXPECT_EQ(Reason(OfflineCapture(request, ranks_, stop).status()), "CANCELLED");
  EXPECT_EQ(Reason(OpenCapture(request.out, *suite, "all", true).status()), "CAPTURE_INCOMPLETE");
  ranks_.tp = 2;
  const auto rest = OfflineCapture(request, ranks_, OfflineHooks());
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_GT(rest->kept, 0u);
  EXPECT_EQ(rest->kept + rest->captured, 5u);
  EXPECT_EQ(rest->content_sha256, whole->content_sha256);
  const auto again = OfflineCapture(request, ranks_, OfflineHooks());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->kept, 5u);
  EXPECT_EQ(again->captured, 0u);

  FlipByte(request.out + "/hidden_0002.safetensors", 500);
  const absl::Status damaged = OfflineCapture(request, ranks_, OfflineHooks()).status();
  EXPECT_EQ(Reason(damaged), "DIGEST_MISMATCH");
  EXPECT_THAT(MessageOf(damaged), HasSubstr("hidden_0002.safetensors"));
  request.filter = "sentinel";
  EXPECT_EQ(Reason(OfflineCapture(request, ranks_, OfflineHooks()).status()),
            "CAPTURE_OUT_OCCUPIED");
  request.out = dir_;
  EXPECT_EQ(Reason(OfflineCapture(request, ranks_, OfflineHooks()).status()),
            "CAPTURE_OUT_OCCUPIED");
}

// Stored rows of both forwards, head of the real model: known answers within the stated limits.
TEST_F(OfflineTest, StoredRowsReproduceKnownAnswers) {
  const std::string gguf = Env("ASSAY_SMOLLM2_GGUF");
  if (!FileExists(gguf)) GTEST_SKIP() << "ASSAY_SMOLLM2_GGUF names no file";
  const Json tolerances = *ReadJsonFile(data_ + "/tolerances.json");
  const Json& limit =
      tolerances.at("replay_from_stored_rows").at("float32_accumulated_logits").at("limit");
  const Json summary = *ReadJsonFile(data_ + "/known-answers/summary.json");
  for (const std::string forward : {"oracle64", "hf32"}) {
    OfflineReplayRequest request = Request();
    request.reference = data_ + "/captures/" + forward + "/reference";
    request.candidates.clear();
    for (const char* name : {"int8-channel", "int4-g32", "q4_0"}) {
      request.candidates.push_back({"", data_ + "/captures/" + forward + "/" + name});
    }
    request.head = gguf;
    request.out = dir_ + "/" + forward;
    const auto result = Replay(request);
    ASSERT_TRUE(result.ok()) << result.status();
    for (const SummaryCandidate& candidate : result->candidates) {
      EXPECT_EQ(candidate.report.at("heads").at("shared").at("reference_head").at("rounded_sha256"),
                summary.at("head_bf16_sha256"));
      const auto arrays =
          ReadPositionFolder(request.out + "/" + candidate.label + "/positions/shared", 126);
      const auto known = SafetensorsFile::Open(data_ + "/known-answers/" + candidate.label + "." +
                                               forward + ".safetensors");
      ASSERT_TRUE(arrays.ok() && known.ok()) << arrays.status() << known.status();
      const TensorView kl = *(*known)->Find("kl_ref_cand"), top = *(*known)->Find("top1_cand");
      double sum = 0, want_sum = 0;
      for (size_t i = 0; i < 126; ++i) {
        const size_t row = (i < 63 ? 1 * 63 : 7 * 63 - 63) + i;  // contexts 1 and 7
        double want;
        int32_t token;
        memcpy(&want, kl.bytes.data() + 8 * row, 8);
        memcpy(&token, top.bytes.data() + 4 * row, 4);
        const double got = (*arrays)[F64Output::kKlRefCand][i];
        EXPECT_NEAR(got, want,
                    limit.at("kl_abs_over_sqrt_kl").get<double>() * std::sqrt(want) + 1e-9);
        EXPECT_EQ((*arrays)[I32Output::kTop1Cand][i], token);
        sum += got;
        want_sum += want;
      }
      // The limit is for the panel's 504 positions; 126 average the same noise half as well.
      EXPECT_NEAR(sum / want_sum, 1.0, 2 * limit.at("token_mean_kld_rel").get<double>());
    }
  }
}

}  // namespace
}  // namespace assay
