#include "storage/db/row.h"

#include <google/protobuf/message.h>

#include <array>
#include <concepts>
#include <memory>
#include <type_traits>
#include <vector>

#include "assay/store/v1/records.pb.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"
#include "storage/base/utf8.h"

namespace assay {
namespace {

namespace pb = ::assay::store::v1;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view kMagic = "AsRw";
constexpr size_t kHeaderBytes = 12;

template <class T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, std::string>;

const FieldDescriptor* FieldOf(const Message& m, int number) {
  return m.GetDescriptor()->FindFieldByNumber(number);
}

// Copies a row's fields into a message through reflection: the field list of rows.h is the only
// one.
struct Writer {
  Message* m;

  template <class T>
  void operator()(int number, const T& value) const {
    const FieldDescriptor* f = FieldOf(*m, number);
    const auto* r = m->GetReflection();
    if constexpr (std::same_as<T, std::string>) {
      // Protobuf writes text that is no UTF-8 and then refuses to read it: one bad message would
      // make the whole store unreadable.
      const bool text = f->type() == FieldDescriptor::TYPE_STRING;
      r->SetString(m, f, text && !IsUtf8(value) ? ScrubUtf8(value) : value);
    } else if constexpr (std::same_as<T, bool>) {
      r->SetBool(m, f, value);
    } else if constexpr (std::same_as<T, double>) {
      r->SetDouble(m, f, value);
    } else if constexpr (std::same_as<T, int64_t>) {
      r->SetInt64(m, f, value);
    } else if constexpr (std::same_as<T, uint64_t>) {
      r->SetUInt64(m, f, value);
    } else if constexpr (std::is_enum_v<T> || std::same_as<T, uint32_t>) {
      r->SetUInt32(m, f, static_cast<uint32_t>(value));
    } else {
      Fields(value, Writer{r->MutableMessage(m, f)});
    }
  }
  template <class T>
  void operator()(int number, const std::vector<T>& values) const {
    const FieldDescriptor* f = FieldOf(*m, number);
    const auto* r = m->GetReflection();
    for (const T& value : values) {
      if constexpr (std::same_as<T, std::string>) {
        r->AddString(m, f, IsUtf8(value) ? value : ScrubUtf8(value));
      } else if constexpr (std::same_as<T, int64_t>) {
        r->AddInt64(m, f, value);
      } else if constexpr (std::same_as<T, uint32_t>) {
        r->AddUInt32(m, f, value);
      } else {
        Fields(value, Writer{r->AddMessage(m, f)});
      }
    }
  }
};

struct Reader {
  const Message* m;

  template <class T>
  void operator()(int number, T& value) const {
    const FieldDescriptor* f = FieldOf(*m, number);
    const auto* r = m->GetReflection();
    if constexpr (std::same_as<T, std::string>) {
      value = r->GetString(*m, f);
    } else if constexpr (std::same_as<T, bool>) {
      value = r->GetBool(*m, f);
    } else if constexpr (std::same_as<T, double>) {
      value = r->GetDouble(*m, f);
    } else if constexpr (std::same_as<T, int64_t>) {
      value = r->GetInt64(*m, f);
    } else if constexpr (std::same_as<T, uint64_t>) {
      value = r->GetUInt64(*m, f);
    } else if constexpr (std::is_enum_v<T> || std::same_as<T, uint32_t>) {
      value = static_cast<T>(r->GetUInt32(*m, f));
    } else {
      Fields(value, Reader{&r->GetMessage(*m, f)});
    }
  }
  template <class T>
  void operator()(int number, std::vector<T>& values) const {
    const FieldDescriptor* f = FieldOf(*m, number);
    const auto* r = m->GetReflection();
    const int n = r->FieldSize(*m, f);
    values.resize(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) {
      T& value = values[static_cast<size_t>(i)];
      if constexpr (std::same_as<T, std::string>) {
        value = r->GetRepeatedString(*m, f, i);
      } else if constexpr (std::same_as<T, int64_t>) {
        value = r->GetRepeatedInt64(*m, f, i);
      } else if constexpr (std::same_as<T, uint32_t>) {
        value = r->GetRepeatedUInt32(*m, f, i);
      } else {
        Fields(value, Reader{&r->GetRepeatedMessage(*m, f, i)});
      }
    }
  }
};

// In the order of Row's alternatives.
const Message& Prototype(size_t alternative) {
  static const std::array<const Message*, std::variant_size_v<Row>> prototypes = {
      &pb::Suite::default_instance(),       &pb::Model::default_instance(),
      &pb::Head::default_instance(),        &pb::Capture::default_instance(),
      &pb::CaptureFile::default_instance(), &pb::Run::default_instance(),
      &pb::Unit::default_instance(),        &pb::Report::default_instance(),
      &pb::Receipt::default_instance(),     &pb::RequestId::default_instance(),
      &pb::Event::default_instance(),       &pb::Evidence::default_instance(),
      &pb::LogNode::default_instance(),     &pb::Meta::default_instance()};
  return *prototypes[alternative];
}

template <size_t I = 0>
Row RowOfAlternative(size_t alternative) {
  if constexpr (I + 1 < std::variant_size_v<Row>) {
    if (alternative != I) return RowOfAlternative<I + 1>(alternative);
  }
  return Row(std::in_place_index<I>);
}

void AppendBigEndian(std::string* out, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

uint32_t LoadLittle32(const char* p) {
  uint32_t v = 0;
  for (int i = 3; i >= 0; --i) v = (v << 8) | static_cast<uint8_t>(p[i]);
  return v;
}

template <class R>
std::string KindPrefix() {
  return std::string(1, static_cast<char>(Row(R{}).index() + 1));
}

struct KeyVisitor {
  static RowKey Of(Family family, const Row& kind_of, const std::string& rest) {
    return {family, std::string(1, static_cast<char>(kind_of.index() + 1)) + rest};
  }
  RowKey operator()(const SuiteRow& r) const { return Of(Family::kResource, r, r.id); }
  RowKey operator()(const ModelRow& r) const { return Of(Family::kResource, r, r.id); }
  RowKey operator()(const HeadRow& r) const { return Of(Family::kResource, r, r.id); }
  RowKey operator()(const CaptureRow& r) const { return Of(Family::kResource, r, r.id); }
  RowKey operator()(const CaptureFileRow& r) const {
    std::string rest = r.capture;
    AppendBigEndian(&rest, r.generation, 1);
    AppendBigEndian(&rest, static_cast<uint64_t>(r.index), 8);
    return Of(Family::kResource, r, rest);
  }
  RowKey operator()(const RunRow& r) const { return Of(Family::kWork, r, r.id); }
  RowKey operator()(const UnitRow& r) const {
    std::string rest;
    AppendBigEndian(&rest, r.id, 8);
    return Of(Family::kWork, r, rest);
  }
  RowKey operator()(const ReportRow& r) const { return Of(Family::kResource, r, r.id); }
  RowKey operator()(const ReceiptRow& r) const { return Of(Family::kResource, r, r.id); }
  RowKey operator()(const RequestIdRow& r) const { return Of(Family::kRequest, r, r.key); }
  RowKey operator()(const EventRow& r) const {
    return {Family::kEvent, EventKey(r.run, r.revision)};
  }
  RowKey operator()(const EvidenceRow& r) const {
    std::string rest;
    AppendBigEndian(&rest, r.unit, 8);
    return Of(Family::kWork, r, rest + r.lease);
  }
  RowKey operator()(const LogNodeRow& r) const {
    return {Family::kLog, LogNodeKey(r.level, r.index)};
  }
  RowKey operator()(const MetaRow& r) const { return Of(Family::kMeta, r, ""); }
};

}  // namespace

RowKey KeyOf(const Row& row) { return std::visit(KeyVisitor{}, row); }

std::string EventKey(std::string_view run, uint64_t revision) {
  std::string key = KindPrefix<EventRow>();
  key.append(run).push_back('\0');
  AppendBigEndian(&key, revision, 8);
  return key;
}

std::string LogNodeKey(uint32_t level, uint64_t index) {
  std::string key = KindPrefix<LogNodeRow>();
  AppendBigEndian(&key, level, 4);
  AppendBigEndian(&key, index, 8);
  return key;
}

std::string EncodeRow(const Row& row) {
  std::unique_ptr<Message> message(Prototype(row.index()).New());
  std::visit([&](const auto& r) { Fields(r, Writer{message.get()}); }, row);
  std::string payload;
  message->SerializeToString(&payload);
  std::string out(kMagic);
  out.push_back(static_cast<char>(kRowFormatVersion));
  out.push_back(static_cast<char>(row.index() + 1));
  out.append(2, '\0');
  const uint32_t crc = Crc32c(payload);
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>((crc >> (8 * i)) & 0xff));
  return out + payload;
}

absl::StatusOr<Row> DecodeRow(std::string_view bytes, std::string_view where) {
  const auto damaged = [&](std::string_view why) {
    return DataLossError("STORE_DAMAGED", std::string(where) + ": " + std::string(why) +
                                              "; restore the data folder from a backup");
  };
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kMagic.size()) != kMagic) {
    return damaged("the row has no valid header");
  }
  const auto version = static_cast<uint8_t>(bytes[4]);
  if (version > kRowFormatVersion) {
    return PreconditionError("STORE_VERSION",
                             std::string(where) + ": the row has format version " +
                                 std::to_string(version) + ", this build reads up to " +
                                 std::to_string(kRowFormatVersion) + "; use a newer build");
  }
  const auto kind = static_cast<uint8_t>(bytes[5]);
  const std::string_view payload = bytes.substr(kHeaderBytes);
  if (Crc32c(payload) != LoadLittle32(bytes.data() + 8))
    return damaged("the row's checksum differs");
  if (version == 0 || kind == 0 || kind > std::variant_size_v<Row>)
    return damaged("the row's kind is unknown");
  std::unique_ptr<Message> message(Prototype(kind - 1u).New());
  if (!message->ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return damaged("the row cannot be decoded");
  }
  Row row = RowOfAlternative(kind - 1u);
  std::visit([&](auto& r) { Fields(r, Reader{message.get()}); }, row);
  return row;
}

uint32_t Crc32c(std::string_view bytes) {
  // Eight bytes at a time: table k gives what a byte contributes when k bytes follow it.
  static const auto tables = [] {
    std::array<std::array<uint32_t, 256>, 8> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? (c >> 1) ^ 0x82f63b78u : c >> 1;
      t[0][i] = c;
    }
    for (size_t k = 1; k < t.size(); ++k) {
      for (size_t i = 0; i < 256; ++i) t[k][i] = t[0][t[k - 1][i] & 0xff] ^ (t[k - 1][i] >> 8);
    }
    return t;
  }();
  uint32_t crc = 0xffffffffu;
  while (bytes.size() >= 8) {
    crc ^= LoadLittle32(bytes.data());
    const uint32_t high = LoadLittle32(bytes.data() + 4);
    crc = tables[7][crc & 0xff] ^ tables[6][(crc >> 8) & 0xff] ^ tables[5][(crc >> 16) & 0xff] ^
          tables[4][crc >> 24] ^ tables[3][high & 0xff] ^ tables[2][(high >> 8) & 0xff] ^
          tables[1][(high >> 16) & 0xff] ^ tables[0][high >> 24];
    bytes.remove_prefix(8);
  }
  for (const char ch : bytes) crc = tables[0][(crc ^ static_cast<uint8_t>(ch)) & 0xff] ^ (crc >> 8);
  return crc ^ 0xffffffffu;
}

}  // namespace assay
