#include "worker/rank/protocol.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/status.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

std::string Reason(const absl::Status& status) { return ReasonOf(status); }

std::string Encoded(const RankCommand& command) {
  absl::StatusOr<std::string> line = EncodeCommand(command);
  EXPECT_TRUE(line.ok());
  EXPECT_EQ(line->back(), '\n');
  line->pop_back();
  return *line;
}

std::string Encoded(const RankEvent& event) {
  absl::StatusOr<std::string> line = EncodeEvent(event);
  EXPECT_TRUE(line.ok());
  EXPECT_EQ(line->back(), '\n');
  line->pop_back();
  return *line;
}

// The lines are the wire between two programs: their text is pinned, not only its round trip.
TEST(RankProtocol, TextOfCommands) {
  RankInit init;
  init.rank = 1;
  init.size = 2;
  init.rendezvous = "/r";
  init.threads = 3;
  init.backend = "gloo";
  init.capture_library = "/l.so";
  init.collective_timeout_ms = 9;
  EXPECT_EQ(Encoded(RankCommand(init)),
            R"({"op":"init","v":1,"rank":1,"size":2,"rendezvous":"/r","threads":3,)"
            R"("backend":"gloo","capture_library":"/l.so","collective_timeout_ms":9})");
  EXPECT_EQ(Encoded(RankCommand(RankRun{7, "/u.json", "/o"})),
            R"({"op":"run","id":7,"unit":"/u.json","out_dir":"/o"})");
  EXPECT_EQ(Encoded(RankCommand(RankCancel{7})), R"({"op":"cancel","id":7})");
  EXPECT_EQ(Encoded(RankCommand(RankShutdown{})), R"({"op":"shutdown"})");
}

TEST(RankProtocol, TextOfEvents) {
  EXPECT_EQ(Encoded(RankEvent(RankHello{"0.1.0", 12})),
            R"({"op":"hello","v":1,"build":"0.1.0","pid":12})");
  EXPECT_EQ(Encoded(RankEvent(RankProgress{7, 3, 16})),
            R"({"op":"progress","id":7,"done":3,"total":16})");
  EXPECT_EQ(Encoded(RankEvent(RankDone{7, Json{{"file", "x"}}, 10, 20})),
            R"({"op":"done","id":7,"result":{"file":"x"},)"
            R"("counters":{"multiply_adds":10,"weight_bytes":20}})");
  const absl::Status refused = WithDetails(InvalidError("NON_FINITE_INPUT", "bad row"),
                                           Json{{"operand", "ref"}, {"position", 4}});
  EXPECT_EQ(Encoded(RankEvent(RankFailed{7, refused})),
            R"({"op":"failed","id":7,"code":"INVALID_ARGUMENT","reason":"NON_FINITE_INPUT",)"
            R"("message":"bad row","details":{"operand":"ref","position":4}})");
}

TEST(RankProtocol, DecodesWhatTheTextSays) {
  absl::StatusOr<RankCommand> init = DecodeCommand(
      R"({"op":"init","v":1,"rank":3,"size":4,"rendezvous":"/r","threads":2,"backend":"auto",)"
      R"("capture_library":"","collective_timeout_ms":5,"later_member":true})");
  ASSERT_TRUE(init.ok()) << init.status();
  EXPECT_EQ(std::get<RankInit>(*init).rank, 3);
  EXPECT_EQ(std::get<RankInit>(*init).size, 4);
  EXPECT_EQ(std::get<RankInit>(*init).threads, 2);
  absl::StatusOr<RankEvent> failed = DecodeEvent(
      R"({"op":"failed","id":2,"code":"NOT_FOUND","reason":"FILE_MISSING","message":"m"})");
  ASSERT_TRUE(failed.ok()) << failed.status();
  const RankFailed& event = std::get<RankFailed>(*failed);
  EXPECT_EQ(event.id, 2);
  EXPECT_EQ(event.status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Reason(event.status), "FILE_MISSING");
  EXPECT_TRUE(DetailsOf(event.status).is_null());
}

TEST(RankProtocol, FailureKeepsCodeReasonAndDetails) {
  const absl::Status status =
      WithDetails(Error(absl::StatusCode::kDataLoss, "X_Y", "a sentence"), Json{{"column", 5}});
  absl::StatusOr<RankEvent> event = DecodeEvent(Encoded(RankEvent(RankFailed{0, status})));
  ASSERT_TRUE(event.ok());
  const absl::Status& got = std::get<RankFailed>(*event).status;
  EXPECT_EQ(got.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(got), "X_Y");
  EXPECT_EQ(MessageOf(got), "a sentence");
  EXPECT_EQ(DetailsOf(got), (Json{{"column", 5}}));
}

TEST(RankProtocol, EveryCodeSurvives) {
  for (int code = 1; code <= 16; ++code) {
    const auto value = static_cast<absl::StatusCode>(code);
    EXPECT_EQ(StatusCodeOf(StatusCodeName(value)), value) << code;
    EXPECT_EQ(StatusCodeName(value), absl::StatusCodeToString(value));
  }
  EXPECT_EQ(StatusCodeOf("NO_SUCH_CODE"), absl::StatusCode::kUnknown);
}

TEST(RankProtocol, RefusesWhatIsNoCommand) {
  const struct {
    const char* line;
    const char* reason;
  } cases[] = {
      {"", "PROTOCOL_INVALID"},
      {"{", "PROTOCOL_INVALID"},
      {"[]", "PROTOCOL_INVALID"},
      {"{}", "PROTOCOL_INVALID"},
      {R"({"op":7})", "PROTOCOL_INVALID"},
      {R"({"op":"dance"})", "PROTOCOL_UNKNOWN_OP"},
      {R"({"op":"done","id":1,"result":{},"counters":{}})", "PROTOCOL_UNKNOWN_OP"},
      {R"({"op":"cancel"})", "PROTOCOL_INVALID"},
      {R"({"op":"cancel","id":0})", "PROTOCOL_INVALID"},
      {R"({"op":"cancel","id":1.5})", "PROTOCOL_INVALID"},
      {R"({"op":"cancel","id":1,"id":2})", "PROTOCOL_INVALID"},
      {R"({"op":"run","id":1,"unit":"","out_dir":"/o"})", "PROTOCOL_INVALID"},
      {R"({"op":"init","v":2,"rank":0,"size":1})", "PROTOCOL_VERSION"},
      {R"({"op":"init","v":1,"rank":1,"size":1,"rendezvous":"/r","threads":1,"backend":"auto",)"
       R"("capture_library":"","collective_timeout_ms":5})",
       "PROTOCOL_INVALID"},
      {R"({"op":"init","v":1,"rank":0,"size":9,"rendezvous":"/r","threads":1,"backend":"auto",)"
       R"("capture_library":"","collective_timeout_ms":5})",
       "PROTOCOL_INVALID"},
      {R"({"op":"init","v":1,"rank":0,"size":1,"rendezvous":"/r","threads":0,"backend":"auto",)"
       R"("capture_library":"","collective_timeout_ms":5})",
       "PROTOCOL_INVALID"},
  };
  for (const auto& test : cases) {
    absl::StatusOr<RankCommand> command = DecodeCommand(test.line);
    ASSERT_FALSE(command.ok()) << test.line;
    EXPECT_EQ(Reason(command.status()), test.reason) << test.line;
  }
}

TEST(RankProtocol, RefusesWhatIsNoEvent) {
  for (const char* line :
       {R"({"op":"run","id":1,"unit":"u","out_dir":"o"})", R"({"op":"hello","v":1,"build":"x"})",
        R"({"op":"progress","id":1,"done":5,"total":4})",
        R"({"op":"done","id":1,"result":[],"counters":{"multiply_adds":1,"weight_bytes":1}})",
        R"({"op":"done","id":1,"result":{},"counters":{"multiply_adds":-1,"weight_bytes":1}})",
        R"({"op":"failed","id":1,"code":"INTERNAL","reason":"","message":"m"})",
        R"({"op":"ready","identity":null})"}) {
    absl::StatusOr<RankEvent> event = DecodeEvent(line);
    ASSERT_FALSE(event.ok()) << line;
    EXPECT_THAT(Reason(event.status()), HasSubstr("PROTOCOL_")) << line;
  }
  absl::StatusOr<RankEvent> other = DecodeEvent(R"({"op":"hello","v":3,"build":"x","pid":1})");
  EXPECT_EQ(Reason(other.status()), "PROTOCOL_VERSION");
}

TEST(RankProtocol, LinesHaveALimit) {
  const std::string long_path(kRankLineBytesMax, 'x');
  EXPECT_EQ(Reason(EncodeCommand(RankRun{1, long_path, "/o"}).status()), "PROTOCOL_LINE_TOO_LONG");
  EXPECT_EQ(Reason(DecodeCommand(long_path).status()), "PROTOCOL_LINE_TOO_LONG");
  // The longest line that fits passes whole.
  std::string line = Encoded(RankCommand(RankRun{1, "", "/o"}));
  const std::string fill(kRankLineBytesMax - line.size() - 1, 'x');
  EXPECT_TRUE(EncodeCommand(RankRun{1, fill, "/o"}).ok());
  EXPECT_FALSE(EncodeCommand(RankRun{1, fill + "x", "/o"}).ok());
}

TEST(LineBuffer, CutsAnyChunkingTheSame) {
  const std::string stream = "one\ntwo\n\nthree\nrest";
  for (size_t chunk = 1; chunk <= stream.size(); ++chunk) {
    LineBuffer buffer;
    std::string got, line;
    for (size_t at = 0; at < stream.size(); at += chunk) {
      ASSERT_TRUE(buffer.Append(std::string_view(stream).substr(at, chunk)).ok());
      while (buffer.Next(&line)) got += line + ";";
    }
    EXPECT_EQ(got, "one;two;;three;") << chunk;
  }
}

TEST(LineBuffer, RefusesAnEndlessLine) {
  LineBuffer buffer;
  const std::string half(kRankLineBytesMax / 2, 'x');
  EXPECT_TRUE(buffer.Append(half).ok());
  EXPECT_TRUE(buffer.Append("\n" + half).ok());  // two lines, each within the limit
  std::string line;
  EXPECT_TRUE(buffer.Next(&line));
  EXPECT_EQ(Reason(buffer.Append(half)), "PROTOCOL_LINE_TOO_LONG");
}

// Damaged lines are refused or understood, never a crash; a fixed seed keeps the test the same.
TEST(RankProtocol, DamagedLinesDoNoHarm) {
  RankInit init;
  init.rendezvous = "/r";
  const std::string seeds[] = {
      Encoded(RankCommand(init)), Encoded(RankCommand(RankRun{1, "/u", "/o"})),
      Encoded(RankEvent(RankDone{7, Json{{"a", Json::array({1, 2.5, nullptr})}}, 1, 2})),
      Encoded(RankEvent(RankFailed{1, InvalidError("A", "b")}))};
  std::mt19937 random(20261130);
  for (int round = 0; round < 20000; ++round) {
    std::string line = seeds[random() % 4];
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      const size_t at = random() % line.size();
      switch (random() % 3) {
        case 0:
          line[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          line.erase(at, 1 + random() % 3);
          break;
        default:
          line.insert(at, 1, "{}[]\",:0-\\e"[random() % 11]);
      }
      if (line.empty()) line.assign(1, 'x');
    }
    for (const std::string& reason :
         {ReasonOf(DecodeCommand(line).status()), ReasonOf(DecodeEvent(line).status())}) {
      EXPECT_TRUE(reason.empty() || reason.rfind("PROTOCOL_", 0) == 0) << reason << " " << line;
    }
  }
}

}  // namespace
}  // namespace assay
