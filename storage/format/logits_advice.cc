#include "storage/format/logits_advice.h"

#include <array>
#include <fstream>
#include <string_view>

#include "storage/base/files.h"

namespace assay {

std::string LogitsFileAdvice(const std::string& path) {
  constexpr std::string_view kMagic = "_logits";
  if (!FileExists(path) || IsDirectory(path)) return "";
  std::array<char, kMagic.size()> head{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(head.data(), head.size()) || std::string_view(head.data(), head.size()) != kMagic)
    return "";
  return "it is a logits file of llama.cpp, which is clipped and so never scored against a model "
         "or a capture: compare two of them with assay logits compare, or take its suite and "
         "score the models over it (assay import llamacpp-logits)";
}

}  // namespace assay
