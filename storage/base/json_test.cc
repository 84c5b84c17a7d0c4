#include "storage/base/json.h"

#include <gtest/gtest.h>

#include "storage/base/json_fields.h"
#include "storage/base/status.h"

namespace assay {
namespace {

TEST(JsonParseTest, RefusesWhatReadersDisagreeOn) {
  for (const char* bad : {R"({"a":1,"a":2})", R"([NaN])", R"([Infinity])", "\xEF\xBB\xBF{}", "{} x",
                          "[1e999]", "[\"\xff\"]", "", "[1,]"}) {
    const auto parsed = ParseJson(bad, "doc.json");
    EXPECT_EQ(ReasonOf(parsed.status()), "JSON_INVALID") << bad;
    EXPECT_EQ(MessageOf(parsed.status()).rfind("doc.json: ", 0), 0u) << bad;
  }
}

// A reader that stops at the NUL byte sees another document than one that does not.
TEST(JsonParseTest, ANulByteIsNoEndOfTheText) {
  for (const std::string& bad : {std::string("{}\0", 3), std::string("{}\0{\"a\":1}", 11),
                                 std::string("\0{}", 3), std::string("[\"\0\"]", 5)}) {
    EXPECT_EQ(ReasonOf(ParseJson(bad, "doc.json").status()), "JSON_INVALID");
  }
}

TEST(JsonParseTest, DeepNestingIsRefusedWithoutRecursion) {
  EXPECT_FALSE(ParseJson(std::string(100000, '['), "deep").ok());
  EXPECT_TRUE(ParseJson(std::string(64, '[') + std::string(64, ']'), "ok").ok());
}

// What is read is what was written, in its order; a flat object of very many keys is no trap (a
// search of all earlier keys for each one would not end within the test's time).
TEST(JsonParseTest, KeepsOrderAndValuesOfLargeDocuments) {
  constexpr int kKeys = 500'000;
  std::string text = "{";
  for (int i = 0; i < kKeys; ++i) {
    text += (i > 0 ? ",\"model.layers.0.weight." : "\"model.layers.0.weight.") +
            std::to_string((i * 7919LL) % kKeys) + "\":" + std::to_string(i);
  }
  const auto parsed = ParseJson(text + "}", "large");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), static_cast<size_t>(kKeys));
  EXPECT_EQ(parsed->dump(), text + "}");
  const char* mixed = R"({"b":[1,-2,[],{}],"a":{"x":null,"w":[true,"t",18446744073709551615]}})";
  EXPECT_EQ(ParseJson(mixed, "mixed")->dump(), mixed);
  EXPECT_EQ(*ParseJson("7", "number"), Json(7));
}

// The example of RFC 8785 section 3.2.2 and 3.2.3.
TEST(CanonicalJsonTest, Rfc8785Example) {
  const Json doc = *ParseJson(
      R"({"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],)"
      R"("string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]})",
      "rfc");
  EXPECT_EQ(*CanonicalJson(doc),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
            "\"string\":\"\xE2\x82\xAC$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

// RFC 8785 section 3.2.3: order by UTF-16 code units, in which an astral character sorts before
// U+FB33.
// RFC 8785 writes a double below 1e21 as digits, which read back as an integer.
TEST(CanonicalJsonTest, LargeDoublesAreTheirOwnCanonicalForm) {
  for (const double value : {0x1p53, -0x1p60, 888888888888888888.88, 1.7e19, 9e20, 1e21}) {
    const auto text = CanonicalJson(Json(value));
    ASSERT_TRUE(text.ok());
    const auto again = CanonicalJson(ParseJson(*text, "canonical").value());
    ASSERT_TRUE(again.ok()) << *text;
    EXPECT_EQ(*again, *text);
  }
}

TEST(CanonicalJsonTest, SortsByUtf16) {
  const Json doc = *ParseJson(
      R"({"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7})", "rfc");
  EXPECT_EQ(*CanonicalJson(doc),
            "{\"\\r\":2,\"1\":4,\"\xC2\x80\":6,\"\xC3\xB6\":7,\"\xE2\x82\xAC\":1,"
            "\"\xF0\x9F\x98\x80\":5,\"\xEF\xAC\xB3\":3}");
}

TEST(CanonicalJsonTest, RefusesWhatJcsCannotHold) {
  EXPECT_FALSE(CanonicalJson(Json(uint64_t{1} << 60)).ok());
  EXPECT_FALSE(CanonicalJson(Json((uint64_t{1} << 53) + 1)).ok());
  EXPECT_FALSE(CanonicalJson(Json(-(int64_t{1} << 53) - 1)).ok());
  EXPECT_FALSE(CanonicalJson(Json(std::numeric_limits<double>::infinity())).ok());
}

// Produced by CPython 3.11: json.dumps({"a":[1,1.0,1e-05],"b":{},"é":"\U0001f600/"}, indent=2) and
// its other layouts.
TEST(PythonJsonTest, Layouts) {
  const Json doc =
      *ParseJson(R"({"b":{},"a":[1,1.0,1e-05],"\u00e9":"\ud83d\ude00/\u007f"})", "doc");
  EXPECT_EQ(PythonPrettyJson(doc),
            "{\n  \"b\": {},\n  \"a\": [\n    1,\n    1.0,\n    1e-05\n  ],\n  \"\\u00e9\": "
            "\"\\ud83d\\ude00/\\u007f\"\n}");
  EXPECT_EQ(PythonPlainJson(doc),
            "{\"b\": {}, \"a\": [1, 1.0, 1e-05], \"\\u00e9\": \"\\ud83d\\ude00/\\u007f\"}");
  EXPECT_EQ(PythonCanonJson(doc),
            "{\"a\":[1,1.0,1e-05],\"b\":{},\"\\u00e9\":\"\\ud83d\\ude00/\\u007f\"}");
}

TEST(JsonFieldsTest, NamesDocumentAndField) {
  const Json doc = *ParseJson(R"({"n":true,"s":"x","big":18446744073709551615})", "doc");
  const JsonFields fields(doc, "doc.json: row 3");
  EXPECT_EQ(MessageOf(fields.Int("n", 0, 9).status()),
            "doc.json: row 3: field \"n\" must be an integer from 0 to 9");
  EXPECT_EQ(ReasonOf(fields.Int("big", 0, INT64_MAX).status()), "FIELD_INVALID");
  EXPECT_EQ(ReasonOf(fields.String("t").status()), "FIELD_MISSING");
  EXPECT_EQ(ReasonOf(fields.Sha256("s").status()), "FIELD_INVALID");
}

// An integer beyond 64 bits is read as a double: no field of integers takes it, nor any fraction or
// exponent, whatever its value.
TEST(JsonFieldsTest, IntegersAreNeverRounded) {
  for (const char* number : {"18446744073709551616", "18446744073709551615", "9223372036854775808",
                             "-9223372036854775809", "100000000000000000000000000000000000007",
                             "7.0", "7e0", "7E2", "-0.0", "\"7\"", "null"}) {
    const Json doc = *ParseJson("{\"tokens\":" + std::string(number) + "}", "doc");
    const absl::Status status =
        JsonFields(doc, "suite.json").Int("tokens", INT64_MIN, INT64_MAX).status();
    EXPECT_EQ(ReasonOf(status), "FIELD_INVALID") << number;
    EXPECT_EQ(MessageOf(status).find("suite.json: field \"tokens\" must be an integer"), 0u)
        << number;
  }
  for (const auto& [text, value] : {std::pair("9223372036854775807", INT64_MAX),
                                    {"-9223372036854775808", INT64_MIN},
                                    {"-0", 0}}) {
    const Json doc = *ParseJson("{\"tokens\":" + std::string(text) + "}", "doc");
    EXPECT_EQ(*JsonFields(doc, "d").Int("tokens", INT64_MIN, INT64_MAX), value) << text;
  }
}

}  // namespace
}  // namespace assay
