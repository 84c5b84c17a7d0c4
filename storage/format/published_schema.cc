#include "storage/format/published_schema.h"

namespace assay {

std::string PublishedSchema::Sibling(std::string_view other_kind, int other_generation) const {
  return family + "-" + std::string(other_kind) + "/" + std::to_string(other_generation);
}

PublishedSchema ParsePublishedSchema(std::string_view schema) {
  for (const std::string_view family : {"qwen38", "glm53flash"}) {
    if (schema.substr(0, family.size()) != family) continue;
    std::string_view rest = schema.substr(family.size());
    const size_t slash = rest.rfind('/');
    if (rest.substr(0, 1) != "-" || slash == std::string_view::npos) continue;
    const std::string_view number = rest.substr(slash + 1);
    if (number.empty() || number.size() > 2 || number[0] == '0' ||
        number.find_first_not_of("0123456789") != std::string_view::npos) {
      continue;
    }
    return {std::string(family), std::string(rest.substr(1, slash - 1)),
            std::stoi(std::string(number))};
  }
  return {};
}

PublishedSchema PublishedSchemaOf(const Json& document) {
  if (!document.is_object()) return {};
  const auto schema = document.find("schema");
  if (schema == document.end() || !schema->is_string()) return {};
  return ParsePublishedSchema(schema->get_ref<const std::string&>());
}

}  // namespace assay
