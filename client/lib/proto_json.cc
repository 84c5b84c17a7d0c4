#include "client/lib/proto_json.h"

#include <google/protobuf/descriptor.h>

#include "storage/base/status.h"

namespace assay {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kJsonSuffix = "_json";

// One value: element `index` of a repeated field, or the field itself for index < 0.
Json Value(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto single, auto repeated) {
    return index < 0 ? (reflection.*single)(message, &field)
                     : (reflection.*repeated)(message, &field, index);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return get(&Reflection::GetEnum, &Reflection::GetRepeatedEnum)->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return get(&Reflection::GetString, &Reflection::GetRepeatedString);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (index >= 0) return ProtoJson(reflection.GetRepeatedMessage(message, &field, index));
      if (!reflection.HasField(message, &field)) return nullptr;
      return ProtoJson(reflection.GetMessage(message, &field));
  }
  return nullptr;
}

bool HoldsJson(const FieldDescriptor& field) {
  const std::string_view name = field.name();
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field.is_repeated() &&
         name.size() > kJsonSuffix.size() &&
         name.substr(name.size() - kJsonSuffix.size()) == kJsonSuffix;
}

}  // namespace

Json ProtoJson(const Message& message) {
  Json object = Json::object();
  const auto& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (field.is_repeated()) {
      Json array = Json::array();
      const int size = message.GetReflection()->FieldSize(message, &field);
      for (int k = 0; k < size; ++k) array.push_back(Value(message, field, k));
      object[field.name()] = std::move(array);
      continue;
    }
    Json value = Value(message, field, -1);
    if (!HoldsJson(field)) {
      object[field.name()] = std::move(value);
      continue;
    }
    const std::string name = field.name().substr(0, field.name().size() - kJsonSuffix.size());
    absl::StatusOr<Json> document = ParseJson(value.get_ref<const std::string&>(), field.name());
    object[name] = document.ok() ? *std::move(document) : Json(nullptr);
  }
  return object;
}

absl::Status StatusFromErrorJson(const Json& error) {
  if (!error.is_object()) return absl::OkStatus();
  const std::string name = error.value("code", "UNKNOWN");
  absl::StatusCode code = absl::StatusCode::kUnknown;
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(i)) == name) {
      code = static_cast<absl::StatusCode>(i);
    }
  }
  return Error(code, error.value("reason", "UNKNOWN"), error.value("message", ""));
}

}  // namespace assay
