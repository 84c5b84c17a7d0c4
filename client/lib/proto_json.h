// Messages of the wire as the JSON that commands print and read.

#ifndef ASSAY_CLIENT_LIB_PROTO_JSON_H_
#define ASSAY_CLIENT_LIB_PROTO_JSON_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "storage/base/json.h"

namespace assay {

// Every field under its name in the .proto file, in order of declaration, also when it has its
// default. 64-bit integers are numbers, enumerations their names, absent messages null. A string
// field NAME_json becomes NAME with the document in it (null when empty).
Json ProtoJson(const google::protobuf::Message& message);

// The error of an ErrorInfo in ProtoJson's form; OK for null.
absl::Status StatusFromErrorJson(const Json& error);

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_PROTO_JSON_H_
