// The lines between an agent and its ranks, cut from a stream and decoded; what decodes is encoded
// to a line that decodes to the same.

#include "tests/fuzz/fuzz.h"
#include "worker/rank/protocol.h"

namespace assay {
namespace {

template <class Decode, class Encode>
void RoundTrip(std::string_view line, Decode decode, Encode encode) {
  const auto message = decode(line);
  if (!message.ok()) return;
  const auto written = encode(*message);
  if (!written.ok()) return;  // too long
  fuzz::Require(!written->empty() && written->back() == '\n', "a line ends");
  const auto again = decode(std::string_view(*written).substr(0, written->size() - 1));
  fuzz::Require(again.ok(), "a written line can be read");
  fuzz::Require(encode(*again).value() == *written, "a line is written as it was read");
}

}  // namespace

ASSAY_FUZZ_TARGET(rank_protocol) {
  LineBuffer buffer;
  const size_t half = input.size() / 2;
  if (!buffer.Append(input.substr(0, half)).ok() || !buffer.Append(input.substr(half)).ok()) return;
  std::string line;
  while (buffer.Next(&line)) {
    RoundTrip(line, DecodeCommand, EncodeCommand);
    RoundTrip(line, DecodeEvent, EncodeEvent);
  }
}

}  // namespace assay
