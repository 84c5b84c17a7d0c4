// Decoding a matrix of one weight format against copying the float32 it becomes, as JSON: the rows
// decode-* of tests/bench/run.sh.
//
//   assay_decode_bench FORMAT [--rows N] [--cols N] [--repeats N]     (FORMAT "list": the names)
//
// One thread, 64 rows at a time, as a rank loads a matrix; both write the same memory.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "tests/bench/bench_util.h"
#include "worker/capture/weights/decode.h"
#include "worker/capture/weights/packed_open.h"

namespace assay::bench {
namespace {

constexpr uint64_t kRowsAtOnce = 64;
constexpr uint64_t kGroup = 128;

using Decoder = std::function<void(uint64_t begin, uint64_t end, float* out)>;

// Bytes without meaning, the same in every run.
std::vector<uint8_t> Noise(uint64_t count) {
  std::vector<uint8_t> out(count);
  uint64_t state = 88172645463325252u;
  for (uint8_t& byte : out) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    byte = static_cast<uint8_t>(state >> 32);
  }
  return out;
}

// The tensors of one packed matrix.
class Parts {
 public:
  Parts(uint64_t rows, uint64_t cols) : rows(rows), cols(cols) {}
  void Codes(const std::string& part, DType dtype, std::vector<uint64_t> shape) {
    TensorView& view = Add(part, dtype, std::move(shape));
    std::vector<uint8_t>& bytes = bytes_[view.name];
    bytes = Noise(bytes.size());
    view.bytes = bytes;
  }
  // Every element has these bytes.
  void Constant(const std::string& part, DType dtype, std::vector<uint64_t> shape, uint32_t bits) {
    TensorView& view = Add(part, dtype, std::move(shape));
    std::vector<uint8_t>& bytes = bytes_[view.name];
    const uint64_t size = DTypeBytes(dtype);
    for (uint64_t at = 0; at < bytes.size(); at += size) std::memcpy(&bytes[at], &bits, size);
  }
  Decoder Open(const Json& quantization) const {
    const auto config = QuantConfig::Parse({{"quantization_config", quantization}}, "config.json");
    if (!config.ok()) Die(MessageOf(config.status()));
    const auto opened = OpenPackedWeight(*config, {"m.weight", rows, cols, "bench"},
                                         [this](std::string_view name) -> const TensorView* {
                                           const auto it = views_.find(std::string(name));
                                           return it == views_.end() ? nullptr : &it->second;
                                         });
    if (!opened.ok()) Die(MessageOf(opened.status()));
    return [tensor = opened->tensor](uint64_t begin, uint64_t end, float* out) {
      tensor->Decode(begin, end, out);
    };
  }
  const uint64_t rows, cols;

 private:
  TensorView& Add(const std::string& part, DType dtype, std::vector<uint64_t> shape) {
    TensorView& view = views_["m." + part];
    view.name = "m." + part;
    view.dtype = dtype;
    view.shape = std::move(shape);
    std::vector<uint8_t>& bytes = bytes_[view.name];
    bytes.resize(view.elements() * DTypeBytes(dtype));
    view.bytes = bytes;
    return view;
  }
  std::map<std::string, TensorView> views_;
  std::map<std::string, std::vector<uint8_t>> bytes_;
};

constexpr uint32_t kBf16 = 0x3c23, kF16 = 0x211f, kF32 = 0x3c23d70a;  // about 0.01

Json Group(const char* format, int bits, bool symmetric, const char* strategy, uint64_t group) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups",
           {{"g",
             {{"targets", {"Linear"}},
              {"weights",
               {{"num_bits", bits},
                {"symmetric", symmetric},
                {"strategy", strategy},
                {"group_size", group}}}}}}}};
}

Decoder PackQuantized(Parts& p, int bits, bool symmetric) {
  const uint64_t b = static_cast<uint64_t>(bits), groups = p.cols / kGroup;
  p.Codes("weight_packed", DType::kI32, {p.rows, p.cols * b / 32});
  p.Constant("weight_scale", DType::kBF16, {p.rows, groups}, kBf16);
  if (!symmetric) p.Codes("weight_zero_point", DType::kI32, {p.rows * b / 32, groups});
  return p.Open(Group("pack-quantized", bits, symmetric, "group", kGroup));
}

Decoder Gptq(Parts& p, bool ordered) {
  const uint64_t groups = p.cols / kGroup;
  p.Codes("qweight", DType::kI32, {p.cols / 8, p.rows});
  p.Codes("qzeros", DType::kI32, {groups, p.rows / 8});
  p.Constant("scales", DType::kF16, {groups, p.rows}, kF16);
  if (ordered) p.Constant("g_idx", DType::kI32, {p.cols}, 1);
  return p.Open({{"quant_method", "gptq"},
                 {"bits", 4},
                 {"group_size", kGroup},
                 {"sym", false},
                 {"desc_act", ordered},
                 {"checkpoint_format", "gptq_v2"}});
}

using Maker = std::function<Decoder(Parts&)>;

std::map<std::string, Maker> Formats() {
  std::map<std::string, Maker> out;
  for (int f = 0; f <= static_cast<int>(WeightFormat::kNVFP4); ++f) {
    const auto format = static_cast<WeightFormat>(f);
    std::string name(WeightFormatName(format));
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    out["gguf-" + name] = [format](Parts& p) -> Decoder {
      const uint64_t row = p.cols / WeightBlock(format) * WeightBlockBytes(format);
      return
          [=, bytes = Noise(p.rows * row), cols = p.cols](uint64_t begin, uint64_t end, float* to) {
            DecodeWeights(format, bytes.data() + begin * row, (end - begin) * cols, to);
          };
    };
  }
  out["int4"] = [](Parts& p) { return PackQuantized(p, 4, true); };
  out["int4-zero-points"] = [](Parts& p) { return PackQuantized(p, 4, false); };
  out["int3"] = [](Parts& p) { return PackQuantized(p, 3, true); };
  out["int8"] = [](Parts& p) {
    p.Codes("weight", DType::kI8, {p.rows, p.cols});
    p.Constant("weight_scale", DType::kBF16, {p.rows, 1}, kBf16);
    return p.Open(Group("int-quantized", 8, true, "channel", kGroup));
  };
  out["fp8-block"] = [](Parts& p) {
    p.Codes("weight", DType::kF8E4M3, {p.rows, p.cols});
    p.Constant("weight_scale_inv", DType::kBF16, {p.rows / 128, p.cols / 128}, kBf16);
    return p.Open({{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}});
  };
  out["mxfp8"] = [](Parts& p) {
    p.Codes("weight", DType::kF8E4M3, {p.rows, p.cols});
    p.Constant("weight_scale", DType::kU8, {p.rows, p.cols / 32}, 120);
    return p.Open(Group("mxfp8-quantized", 8, true, "group", 32));
  };
  out["nvfp4"] = [](Parts& p) {
    p.Codes("weight_packed", DType::kU8, {p.rows, p.cols / 2});
    p.Constant("weight_scale", DType::kF8E4M3, {p.rows, p.cols / 16}, 0x55);
    p.Constant("weight_global_scale", DType::kF32, {1}, kF32);
    return p.Open(Group("nvfp4-pack-quantized", 4, true, "tensor_group", 16));
  };
  out["mxfp4"] = [](Parts& p) {
    p.Codes("weight_packed", DType::kU8, {p.rows, p.cols / 2});
    p.Constant("weight_scale", DType::kU8, {p.rows, p.cols / 32}, 120);
    return p.Open(Group("mxfp4-pack-quantized", 4, true, "group", 32));
  };
  out["gptq"] = [](Parts& p) { return Gptq(p, false); };
  out["gptq-order"] = [](Parts& p) { return Gptq(p, true); };
  out["awq"] = [](Parts& p) {
    p.Codes("qweight", DType::kI32, {p.cols, p.rows / 8});
    p.Codes("qzeros", DType::kI32, {p.cols / kGroup, p.rows / 8});
    p.Constant("scales", DType::kF16, {p.cols / kGroup, p.rows}, kF16);
    return p.Open({{"quant_method", "awq"}, {"bits", 4}, {"group_size", kGroup}});
  };
  return out;
}

Json Measure(const Maker& maker, uint64_t rows, uint64_t cols, uint64_t repeats) {
  Parts parts(rows, cols);
  const Decoder decode = maker(parts);
  std::vector<float> out(rows * cols), source(rows * cols, 1.0f);
  Samples decoded, copied;
  for (uint64_t i = 0; i < repeats; ++i) {
    copied.Take([&] {
      for (uint64_t row = 0; row < rows; row += kRowsAtOnce) {
        const uint64_t count = std::min(kRowsAtOnce, rows - row) * cols;
        std::memcpy(&out[row * cols], &source[row * cols], count * sizeof(float));
      }
    });
    decoded.Take([&] {
      for (uint64_t row = 0; row < rows; row += kRowsAtOnce)
        decode(row, std::min(rows, row + kRowsAtOnce), &out[row * cols]);
    });
  }
  return {{"ratio", Ratio(decoded, copied)},
          {"decode", decoded.ToJson()},
          {"copy", copied.ToJson()},
          {"values", rows * cols}};
}

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  using namespace assay::bench;
  const auto formats = Formats();
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "list") {
    for (const auto& [format, maker] : formats) std::printf("%s\n", format.c_str());
    return 0;
  }
  const auto format = formats.find(name);
  if (format == formats.end()) {
    std::fprintf(stderr,
                 "usage: assay_decode_bench FORMAT [--name value]...; \"list\" names them\n");
    return 2;
  }
  Flags flags = {{"--rows", "4096"}, {"--cols", "4096"}, {"--repeats", "7"}};
  ReadFlags(argc, argv, 2, &flags);
  const uint64_t rows = Number(flags, "--rows"), cols = Number(flags, "--cols");
  if (rows == 0 || cols == 0 || rows % 128 != 0 || cols % 256 != 0)
    Die("--rows must be a multiple of 128 and --cols of 256");
  std::printf("%s\n",
              Measure(format->second, rows, cols, Number(flags, "--repeats")).dump().c_str());
  return 0;
}
