#include "storage/base/build_info.h"

namespace assay {

std::string_view AssayVersion() { return ASSAY_VERSION_STRING; }

std::string BuildId() {
  const std::string_view suffix = ASSAY_BUILD_ID_STRING;
  std::string id(AssayVersion());
  if (!suffix.empty()) id.append("+").append(suffix);
  return id;
}

}  // namespace assay
