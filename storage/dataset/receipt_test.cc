// Receipts of the peer's program (tests/data/metric/fidelity-dataset): written again from the same
// values they are the same bytes, but for the sentences and for the estimator's name.

#include "storage/dataset/receipt.h"

#include <gtest/gtest.h>

#include <cstring>

#include "storage/base/files.h"
#include "storage/dataset/canonical.h"

namespace assay {
namespace {

// Members that this program words or names differently.
constexpr const char* kOwnWords[] = {
    "/comparator/tool",           "/comparator/replay_backend",
    "/comparator/replay_env",     "/comparator/estimator_backend",
    "/estimator/softmax_note",    "/estimator/zero_handling",
    "/determinism/note",          "/comparability/key_inputs/note",
    "/comparability/bias/detail", "/measurement_scope/subset_detail",
    "/submission/refusal"};

std::string Folder() {
  return std::string(std::getenv("ASSAY_SOURCE_DIR")) + "/tests/data/metric/fidelity-dataset";
}

std::vector<double> ReadNpy(const std::string& path) {
  const std::string bytes = *ReadFile(path, 1 << 24);
  const size_t begin = 10 + static_cast<uint8_t>(bytes[8]) + 256 * static_cast<uint8_t>(bytes[9]);
  std::vector<double> out((bytes.size() - begin) / sizeof(double));
  std::memcpy(out.data(), bytes.data() + begin, out.size() * sizeof(double));
  return out;
}

DatasetCompareOptions OptionsOf(const Json& entry) {
  const Json& in = entry.at("options");
  DatasetCompareOptions out;
  if (in.contains("vocab_chunk")) out.vocab_chunk = in.at("vocab_chunk").get<int64_t>();
  out.position_block = in.value("position_block", int64_t{128});
  out.self_compare = in.value("self_compare", false);
  out.force_compute = in.value("force_compute", false);
  out.allow_cross_lane = in.value("allow_cross_lane", false);
  out.allow_partial = in.value("allow_partial", false);
  out.disclose_head_substitution = in.value("disclose_head_substitution", false);
  out.own_heads = in.value("own_heads", false);
  return out;
}

// `ours` with the published words in the places where words are ours, sealed again.
Json WithTheirWords(Json ours, const Json& theirs) {
  for (const char* member : kOwnWords) {
    const Json::json_pointer at(member);
    EXPECT_EQ(ours.contains(at), theirs.contains(at)) << member;
    if (!ours.contains(at) || !theirs.contains(at)) continue;
    EXPECT_EQ(ours.at(at).is_null(), theirs.at(at).is_null()) << member;
    ours[at] = theirs.at(at);
  }
  for (auto& [name, gate] : ours["gates"].items()) {
    gate["detail"] = theirs.at("gates").at(name).at("detail");
  }
  EXPECT_EQ(ours["disclosures"].size(), theirs.at("disclosures").size());
  for (size_t i = 0; i < std::min(ours["disclosures"].size(), theirs.at("disclosures").size());
       ++i) {
    ours["disclosures"][i]["detail"] = theirs.at("disclosures")[i].at("detail");
  }
  ours["receipt_sha256"] = DatasetSeal(ours, "receipt_sha256");
  return ours;
}

TEST(ComparisonReceipt, PublishedBytes) {
  const Json answers = *ReadJsonFile(Folder() + "/compare.json");
  int receipts = 0;
  for (const Json& entry : answers) {
    if (!entry.contains("receipt")) continue;
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const DatasetCompareOptions options = OptionsOf(entry);
    DatasetComparison comparison =
        CompareDatasets(Folder() + "/" + entry.at("reference").get<std::string>(),
                        Folder() + "/" + entry.at("candidate").get<std::string>(), options);
    ASSERT_FALSE(comparison.relation.refusal);
    // The peer's values: a non-zero one differs in its last digits from host to host.
    const std::string path = Folder() + "/" + entry.at("receipt").get<std::string>();
    const std::vector<double> values = ReadNpy(DirName(path) + "/tokenwise-kld.npy");
    size_t at = 0;
    for (DatasetWindow& window : comparison.windows) {
      for (double& value : window.kl) {
        ASSERT_LT(at, values.size());
        EXPECT_NEAR(value, values[at], 1e-14);
        value = values[at++];
      }
    }
    EXPECT_EQ(at, values.size());
    const std::string bytes = *ReadFile(path, 1 << 24);
    const Json want = *ParseJson(bytes, path);
    ComparisonReceiptInfo info;
    info.created_utc = want.at("created_utc").get<std::string>();
    info.computed = comparison.computed;
    const Json got =
        ComparisonReceipt(comparison.reference, comparison.candidate, comparison, options, info);
    EXPECT_EQ(got.at("receipt_sha256"), DatasetSeal(got, "receipt_sha256"));
    EXPECT_EQ(DatasetPrettyJson(WithTheirWords(got, want)), bytes);
    ++receipts;
  }
  EXPECT_EQ(receipts, 14);
}

TEST(ComparisonReceipt, PublishedKey) {  // specs: fidelity-dataset 5.1
  EXPECT_EQ(ComparabilityKey({{"panel_id", "panel--fixture.53326a9cd31fede1ea932442"},
                              {"reference_id", "reference--fixture.deepseek-v4.bb5f2cdf5ea90c38"},
                              {"metric_name", "mean_tokenwise_kld"},
                              {"direction", "reference_to_candidate"},
                              {"accumulation_dtype", "float64"},
                              {"stack_relation", "same_stack"},
                              {"head_policy", "native_head"}}),
            "cmp--b9834d82706b4192");
}

}  // namespace
}  // namespace assay
