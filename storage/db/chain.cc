#include "storage/db/chain.h"

#include "assay/store/v1/records.pb.h"
#include "storage/base/status.h"
#include "storage/db/row.h"

namespace assay {
namespace {

std::string BigEndian64(uint64_t v) {
  std::string out(8, '\0');
  for (int i = 7; i >= 0; --i, v >>= 8) out[static_cast<size_t>(i)] = static_cast<char>(v & 0xff);
  return out;
}

std::string LinkHash(const ChainLink& link) {
  const DigestBytes digest = Sha256Of(BigEndian64(link.seq) + link.previous + link.mutations);
  return std::string(digest.begin(), digest.end());
}

}  // namespace

ChainLink NextLink(uint64_t last_seq, const std::string& last_hash,
                   const std::string& mutations_digest) {
  ChainLink link{last_seq + 1, last_hash, mutations_digest, ""};
  link.hash = LinkHash(link);
  return link;
}

void BatchDigest::Add(std::string_view key, std::string_view value) {
  hash_.Update(BigEndian64(key.size()));
  hash_.Update(key);
  hash_.Update(BigEndian64(value.size()));
  hash_.Update(value);
}

void BatchDigest::AddRemoval(std::string_view key) {
  hash_.Update(BigEndian64(key.size()));
  hash_.Update(key);
  hash_.Update(BigEndian64(UINT64_MAX));
}

std::string BatchDigest::Finish() {
  const DigestBytes digest = hash_.Finish();
  return std::string(digest.begin(), digest.end());
}

std::string EncodeLink(const ChainLink& link) {
  store::v1::ChainLink message;
  message.set_seq(link.seq);
  message.set_previous(link.previous);
  message.set_mutations(link.mutations);
  message.set_hash(link.hash);
  std::string payload = message.SerializeAsString();
  const uint32_t crc = Crc32c(payload);
  std::string out = "AsLk";
  out.push_back(static_cast<char>(kRowFormatVersion));
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>((crc >> (8 * i)) & 0xff));
  return out + payload;
}

absl::StatusOr<ChainLink> DecodeLink(std::string_view bytes, std::string_view where) {
  constexpr size_t kHeader = 9;
  store::v1::ChainLink message;
  bool good = bytes.size() >= kHeader && bytes.substr(0, 4) == "AsLk";
  if (good && static_cast<uint8_t>(bytes[4]) > kRowFormatVersion) {
    return PreconditionError("STORE_VERSION", std::string(where) +
                                                  " of the batch chain was written by a newer "
                                                  "build; use that one");
  }
  if (good) {
    uint32_t crc = 0;
    for (size_t i = 8; i >= 5; --i) crc = (crc << 8) | static_cast<uint8_t>(bytes[i]);
    const std::string_view payload = bytes.substr(kHeader);
    good = crc == Crc32c(payload) &&
           message.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
  }
  if (!good) {
    return DataLossError("STORE_DAMAGED",
                         std::string(where) +
                             " of the batch chain cannot be read; restore the data "
                             "folder from a backup");
  }
  return ChainLink{message.seq(), message.previous(), message.mutations(), message.hash()};
}

absl::Status CheckLink(const ChainLink& link, uint64_t last_seq, const std::string& last_hash) {
  if (link.seq != last_seq + 1 || link.previous != last_hash || link.hash != LinkHash(link)) {
    return DataLossError(
        "STORE_DAMAGED",
        "batch chain: link " + std::to_string(link.seq) + " does not follow link " +
            std::to_string(last_seq) +
            "; acknowledged writes are missing or changed. Restore the data folder "
            "from a backup");
  }
  return absl::OkStatus();
}

}  // namespace assay
