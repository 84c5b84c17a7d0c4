// Every parser of documents and containers from outside, against one table of hostile files: each
// must be refused with a reason token, none may crash, hang or take memory without bound.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "storage/base/files.h"
#include "storage/base/json.h"
#include "storage/base/status.h"
#include "storage/base/tar.h"
#include "storage/dataset/verify.h"
#include "storage/format/capture.h"
#include "storage/format/gguf.h"
#include "storage/format/head.h"
#include "storage/format/model_manifest.h"
#include "storage/format/safetensors.h"
#include "storage/format/suite.h"
#include "storage/format/token_list.h"
#include "storage/llamacpp/logits_file.h"
#include "storage/llamacpp/operand.h"
#include "storage/published/capture_folder.h"
#include "storage/published/convert.h"
#include "storage/published/examine.h"
#include "storage/published/head_receipt.h"
#include "storage/report/report.h"
#include "storage/report/report_test_data.h"
#include "storage/seal/pack.h"
#include "storage/seal/verify.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string Data(const std::string& name) {
  const char* root = std::getenv("ASSAY_SOURCE_DIR");
  return JoinPath(root == nullptr ? "." : root, "tests/data/" + name);
}

std::string Read(const std::string& path) {
  const auto bytes = ReadFile(path, uint64_t{1} << 30);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.ok() ? *bytes : "";
}

absl::Status StatusOf(const PublishedExamination& examination) {
  for (const PublishedCheck& check : examination.checks) {
    if (check.outcome == PublishedOutcome::kFail)
      return DataLossError("GATE_FAILED", check.gate + ": " + check.detail);
  }
  return absl::OkStatus();
}

absl::Status StatusOf(const Verification& verification) {
  for (const Gate& gate : verification.gates) {
    if (gate.state == GateState::kFail) return DataLossError(gate.reason, gate.message);
  }
  return absl::OkStatus();
}

// A parser of JSON: a document that it accepts, and how it reads another one.
struct JsonParser {
  std::string name;
  std::string good;
  std::function<absl::Status(const std::string&)> read;
  // The number that is replaced follows this text; "" = the first one. An aggregate's first is the
  // time of writing, which nothing in it vouches for.
  std::string number_after = {};
};

class HostileFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/assay-hostile-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    work_ = pattern;
  }
  void TearDown() override { fs::remove_all(work_); }

  // A copy of a folder with one file replaced.
  std::string With(const std::string& folder, const std::string& file, const std::string& bytes) {
    const std::string copy = JoinPath(work_, "copy");
    fs::remove_all(copy);
    fs::copy(folder, copy, fs::copy_options::recursive);
    fs::remove(JoinPath(copy, file));
    EXPECT_TRUE(WriteFile(JoinPath(copy, file), bytes).ok());
    return copy;
  }
  // A file of one array with these header bytes, and `payload` bytes of ones.
  std::string Safetensors(const std::string& header, size_t payload) {
    std::string bytes(8, '\0');
    const uint64_t size = header.size();
    std::memcpy(bytes.data(), &size, 8);
    return bytes + header + std::string(payload, '\1');
  }
  std::string Put(const std::string& name, const std::string& bytes) {
    const std::string path = JoinPath(work_, name);
    EXPECT_TRUE(WriteFile(path, bytes).ok());
    return path;
  }

  std::vector<JsonParser> Parsers();
  std::string work_;
};

std::vector<JsonParser> HostileFiles::Parsers() {
  const std::string qf = Data("metric/qf"), dataset = Data("metric/fidelity-dataset/datasets/root");
  std::vector<JsonParser> out;
  out.push_back({"suite manifest", Read(qf + "/suite/suite-manifest.json"),
                 [](const std::string& bytes) { return ParseSuiteManifest(bytes, "x").status(); }});
  out.push_back({"capture manifest", Read(qf + "/captures/cand-a/capture-manifest.json"),
                 [this, qf](const std::string& bytes) {
                   return StatusOf(ExamineCaptureFolder(
                       With(qf + "/captures/cand-a", "capture-manifest.json", bytes), {}));
                 }});
  for (const char* report : {"a", "paired-a-b", "cumulative-a", "ladder-paired"}) {
    out.push_back({std::string("published ") + report, Read(qf + "/reports/" + report + ".json"),
                   [](const std::string& bytes) {
                     const auto got = ExaminePublished(bytes, "x");
                     return got.ok() ? StatusOf(*got) : got.status();
                   },
                   std::string(report) == "cumulative-a" ? "\"contexts\"" : ""});
  }
  for (const char* file : {"fidelity-dataset.json", "capture/manifest.json", "panel/panel.json",
                           "head/head.json", "runtime/capture-runtime.json"}) {
    out.push_back({std::string("dataset ") + file, Read(dataset + "/" + file),
                   [this, dataset, file](const std::string& bytes) {
                     const auto verdict = VerifyDataset(With(dataset, file, bytes), {});
                     return verdict.ok()
                                ? absl::OkStatus()
                                : DataLossError("DATASET", verdict.findings.errors[0].code);
                   }});
  }
  out.push_back(
      {"head receipt", Read(dataset + "/head/head.json"), [dataset](const std::string& bytes) {
         return StatusOf(ExamineHead(dataset + "/head/weight.safetensors", "", bytes, nullptr));
       }});
  out.push_back({"report", Must(ReportBytes(Must(BuildReport(SmolInputs("int8-channel"))))),
                 [](const std::string& bytes) { return ParseReport(bytes, "x").status(); }});
  out.push_back({"token list", "[1, 2, 3]", [](const std::string& bytes) {
                   const auto tokens = ParseTokenList(bytes, "x");
                   return tokens.ok() && tokens->size() != 3
                              ? InvalidError("OTHER_TOKENS", "not those three")
                              : tokens.status();
                 }});
  return out;
}

std::string Utf16(const std::string& text, bool big) {
  std::string out = big ? "\xfe\xff" : "\xff\xfe";
  for (const char c : text) {
    if (big) out += '\0';
    out += c;
    if (!big) out += '\0';
  }
  return out;
}

// `text` with `token` as the value of a new first member, or a new first element.
std::string WithValue(const std::string& text, const std::string& token) {
  const size_t at = text.find_first_of("{[") + 1;
  return text.substr(0, at) + (text[at - 1] == '{' ? "\"zz\": " : "") + token + ", " +
         text.substr(at);
}

// The document's first number replaced.
std::string WithNumber(const std::string& text, const std::string& after,
                       const std::string& number) {
  size_t at = after.empty() ? 0 : text.find(after) + after.size();
  bool in_string = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '"') in_string = !in_string;
    if (!in_string && std::isdigit(static_cast<unsigned char>(text[at])) != 0) break;
  }
  size_t end = at;
  while (end < text.size() && std::strchr("0123456789.eE+-", text[end]) != nullptr) ++end;
  return text.substr(0, at) + number + text.substr(end);
}

struct Mutation {
  const char* what;
  std::function<std::string(const std::string&)> apply;
  const char* number = nullptr;  // instead of apply: what a number becomes
};

const std::vector<Mutation>& Mutations() {
  static const auto* const all = new std::vector<Mutation>{
      {"empty", [](const std::string&) { return std::string(); }},
      {"cut in the middle", [](const std::string& t) { return t.substr(0, t.size() / 2); }},
      {"last character missing",
       [](const std::string& t) { return t.substr(0, t.find_last_of("}]")); }},
      {"text behind the end", [](const std::string& t) { return t + " x"; }},
      {"a key twice",
       [](const std::string& t) {
         const size_t begin = t.find('"'), end = t.find(':');
         if (t[0] != '{') return std::string("[1, 2, 3, 3]");
         return "{" + t.substr(begin, end - begin) + ": null, " + t.substr(1);
       }},
      {"a number beyond 2^53", nullptr, "9007199254740993"},
      {"a number beyond 2^64", nullptr, "36893488147419103232"},
      {"a number beyond double", nullptr, "1e999"},
      {"NaN", [](const std::string& t) { return WithValue(t, "NaN"); }},
      {"Infinity", [](const std::string& t) { return WithValue(t, "Infinity"); }},
      {"-Infinity", [](const std::string& t) { return WithValue(t, "-Infinity"); }},
      {"a byte-order mark", [](const std::string& t) { return "\xef\xbb\xbf" + t; }},
      {"UTF-16, little-endian", [](const std::string& t) { return Utf16(t, false); }},
      {"UTF-16, big-endian", [](const std::string& t) { return Utf16(t, true); }},
      {"bad UTF-8", [](const std::string& t) { return WithValue(t, "\"\xc3\x28\""); }},
      {"a lone surrogate", [](const std::string& t) { return WithValue(t, "\"\\ud800\""); }},
      {"a bare control character",
       [](const std::string& t) { return WithValue(t, std::string("\"\0\"", 3)); }},
      {"100,000 nested lists",
       [](const std::string& t) {
         return WithValue(t, std::string(100000, '[') + std::string(100000, ']'));
       }},
      {"100,000 open objects",
       [](const std::string& t) {
         std::string deep;
         for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
         return WithValue(t, deep);
       }},
      {"another type", [](const std::string&) { return std::string("\"text\""); }},
  };
  return *all;
}

TEST_F(HostileFiles, EveryJsonParserRefusesEveryMutation) {
  for (const JsonParser& parser : Parsers()) {
    const absl::Status good = parser.read(parser.good);
    EXPECT_TRUE(good.ok()) << parser.name << ": " << good;
    for (const Mutation& mutation : Mutations()) {
      const absl::Status status =
          parser.read(mutation.number == nullptr
                          ? mutation.apply(parser.good)
                          : WithNumber(parser.good, parser.number_after, mutation.number));
      EXPECT_FALSE(status.ok()) << parser.name << ": " << mutation.what;
      EXPECT_NE(ReasonOf(status), "UNKNOWN") << parser.name << ": " << mutation.what;
    }
  }
}

// Sparse files: nothing of them is read before their size is looked at.
TEST_F(HostileFiles, AGigabyteWhereADocumentShouldBe) {
  const auto huge = [&](const std::string& folder, const std::string& file) {
    const std::string copy = With(folder, file, "");
    EXPECT_EQ(truncate(JoinPath(copy, file).c_str(), off_t{3} << 29), 0);
    return copy;
  };
  const std::string qf = Data("metric/qf"), dataset = Data("metric/fidelity-dataset/datasets/root");
  EXPECT_EQ(ReasonOf(ReadSuite(huge(qf + "/suite", "suite-manifest.json")).status()),
            "FILE_TOO_LARGE");
  EXPECT_EQ(ReasonOf(ReadSuite(huge(qf + "/suite", "tokens/context-0003.json")).status()),
            "FILE_TOO_LARGE");
  EXPECT_EQ(
      ReasonOf(
          ReadCaptureManifest(huge(qf + "/captures/cand-a", "capture-manifest.json")).status()),
      "FILE_TOO_LARGE");
  EXPECT_FALSE(VerifyDataset(huge(dataset, "fidelity-dataset.json"), {}).ok());
  EXPECT_FALSE(VerifyDataset(huge(dataset, "panel/panel.json"), {}).ok());
  const std::string zeros = Put("zeros", "");
  ASSERT_EQ(truncate(zeros.c_str(), off_t{3} << 29), 0);
  EXPECT_EQ(ReasonOf(SafetensorsFile::Open(zeros).status()), "SAFETENSORS_INVALID");
  EXPECT_EQ(ReasonOf(GgufFile::Open(zeros).status()), "GGUF_INVALID");
  EXPECT_EQ(ReasonOf(LlamacppLogits::Open(zeros).status()), "LLAMACPP_INVALID");
  EXPECT_FALSE(IsPackedResult(zeros));
}

// Containers: headers that lie about what follows.
TEST_F(HostileFiles, TensorsThatLie) {
  const char* const kBf16 = R"("dtype":"BF16","shape":[47,96],"data_offsets":[0,9024])";
  struct Case {
    const char* what;
    std::string header;
    size_t payload;
  };
  const std::vector<Case> cases = {
      {"overlap",
       R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})",
       12},
      {"a hole",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}})",
       12},
      {"bytes behind the last one", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 8},
      {"a dtype that needs more", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}})", 8},
      {"an unknown dtype", R"({"a":{"dtype":"F17","shape":[4],"data_offsets":[0,8]}})", 8},
      {"a product beyond 2^64",
       R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0},
      {"a negative size", R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4},
      {"offsets backwards", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4},
      {"offsets beyond the file", R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", 4},
      {"a number of 1e3", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4e0]}})", 4},
      {"a name twice",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}})",
       4},
      {"nine dimensions",
       R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1},
  };
  for (const Case& hostile : cases) {
    const std::string path = Put("x.safetensors", Safetensors(hostile.header, hostile.payload));
    EXPECT_EQ(ReasonOf(SafetensorsFile::Open(path).status()), "SAFETENSORS_INVALID")
        << hostile.what;
    EXPECT_FALSE(DigestHead(path, "").ok()) << hostile.what;
  }
  std::string cut = Safetensors(std::string("{\"hidden_states\":{") + kBf16 + "}}", 9024);
  for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{40}, cut.size() - 1}) {
    const std::string path = Put("cut.safetensors", cut.substr(0, size));
    EXPECT_EQ(ReasonOf(SafetensorsFile::Open(path).status()), "SAFETENSORS_INVALID") << size;
  }
  // Sound containers whose tensors are not what they should be.
  for (const char* header :
       {R"({"hidden_states":{"dtype":"BF16","shape":[0,96],"data_offsets":[0,0]}})",
        R"({"hidden_states":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})",
        R"({"hidden_states":{"dtype":"I16","shape":[1,1],"data_offsets":[0,2]}})",
        R"({"other":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}})"}) {
    const std::string text(header);
    const bool two = text.find("[0,2]") != std::string::npos;
    const auto file = SafetensorsFile::Open(Put("h.safetensors", Safetensors(text, two ? 2 : 0)));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_FALSE(CheckHiddenFile(**file, 47, 96).ok()) << header;
  }
}

TEST_F(HostileFiles, NamesThatLeaveOrCollide) {
  const std::string good = Read(Data("metric/qf/suite/suite-manifest.json"));
  const auto suite = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    bytes.replace(bytes.find(from), from.size(), to);
    return ReasonOf(ParseSuiteManifest(bytes, "x").status());
  };
  const std::string name = "tokens/context-0003.json";
  for (const char* bad : {"/etc/passwd", "../context-0003.json", "tokens/../../x", "tokens//x", "",
                          "tokens/./x", "tokens\\\\..\\\\x", "tokens/\\u0000x"}) {
    EXPECT_EQ(suite(name, bad), "PATH_UNSAFE") << bad;
  }
  EXPECT_EQ(suite(name, "tokens/context-0004.json"), "SUITE_INVALID");
  EXPECT_EQ(suite(name, "tokens/Context-0004.JSON"), "SUITE_INVALID");
  // A model that names a file twice, or one outside.
  const std::string digest(64, 'a');
  const auto file = [&](const char* path) {
    return Json{{"path", path}, {"sha256", digest}, {"size", 1}};
  };
  for (const auto& [a, b] : {std::pair("config.json", "config.json"),
                             {"config.json", "../config.json"},
                             {"/config.json", "model.safetensors"}}) {
    EXPECT_FALSE(ParseModelManifest(Json{{"files", {file(a), file(b)}}}, "x").ok())
        << a << " " << b;
  }
}

TEST_F(HostileFiles, LinksThatLeaveTheFolder) {
  const std::string dir = JoinPath(work_, "capture");
  fs::copy(Data("metric/qf/captures/cand-a"), dir);
  const std::string hidden = JoinPath(dir, "hidden_0002.safetensors");
  fs::rename(hidden, JoinPath(work_, "outside"));
  fs::create_symlink("../outside", hidden);
  EXPECT_FALSE(StatusOf(ExamineCaptureFolder(dir, {})).ok());
  EXPECT_EQ(ReasonOf(ConvertCapture(dir, nullptr, JoinPath(work_, "out"), 1).status()),
            "CONVERSION_REFUSED");
  const std::string dataset = JoinPath(work_, "dataset");
  fs::copy(Data("metric/fidelity-dataset/datasets/root"), dataset, fs::copy_options::recursive);
  fs::rename(JoinPath(dataset, "README.md"), JoinPath(work_, "README.md"));
  fs::create_symlink("../README.md", JoinPath(dataset, "README.md"));
  EXPECT_FALSE(VerifyDataset(dataset, {}).ok());
}

// Every file of a kind in the place of every other kind.
TEST_F(HostileFiles, OneKindInThePlaceOfAnother) {
  const std::vector<std::string> files = {
      Data("metric/qf/head/weight.safetensors"), Data("weights/gguf-quants.gguf"),
      Data("llamacpp/v4097-c64/base-Q4_1.kld"), Data("metric/qf/suite/suite-manifest.json"),
      Data("metric/qf/suite/tokens/context-0000.json")};
  const std::vector<std::function<absl::Status(const std::string&)>> readers = {
      [](const std::string& path) { return SafetensorsFile::Open(path).status(); },
      [](const std::string& path) { return GgufFile::Open(path).status(); },
      [](const std::string& path) { return LlamacppLogits::Open(path).status(); },
      [](const std::string& path) { return ParseSuiteManifest(Read(path), path).status(); },
      [](const std::string& path) { return ParseTokenList(Read(path), path).status(); }};
  for (size_t i = 0; i < files.size(); ++i) {
    for (size_t k = 0; k < readers.size(); ++k) {
      const absl::Status status = readers[k](files[i]);
      EXPECT_EQ(status.ok(), i == k) << files[i] << " reader " << k << ": " << status;
    }
    EXPECT_FALSE(UnpackedResult::Open(files[i], work_).ok());
    EXPECT_EQ(StatusOf(VerifyReceipt(Read(files[i]), std::nullopt, std::nullopt, {})).ok(), false);
  }
}

}  // namespace
}  // namespace assay
