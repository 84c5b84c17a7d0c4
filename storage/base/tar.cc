#include "storage/base/tar.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "storage/base/files.h"
#include "storage/base/macros.h"
#include "storage/base/status.h"

namespace assay {
namespace {

// Fields of a header: offset and length.
struct Field {
  size_t at, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUid{108, 8}, kGid{116, 8}, kSize{124, 12},
    kTime{136, 12}, kSum{148, 8}, kType{156, 1}, kMagic{257, 8}, kPrefix{345, 155};
constexpr std::string_view kUstar(
    "ustar\0"
    "00",
    8);

void Put(std::string& header, Field field, std::string_view text) {
  header.replace(field.at, text.size(), text);
}

std::string Octal(uint64_t value, size_t digits) {
  std::string out(digits, '0');
  for (size_t i = digits; i-- > 0; value >>= 3) out[i] = static_cast<char>('0' + (value & 7));
  return out;
}

// Sum of the header's bytes with its sum field read as blanks.
uint64_t SumOf(std::span<const uint8_t> header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i)
    sum += i >= kSum.at && i < kSum.at + kSum.size ? ' ' : header[i];
  return sum;
}

// Octal digits, then only NUL and blanks; nothing for any other text.
std::optional<uint64_t> ReadOctal(std::span<const uint8_t> header, Field field) {
  uint64_t value = 0;
  size_t i = 0;
  for (; i < field.size && header[field.at + i] >= '0' && header[field.at + i] <= '7'; ++i)
    value = value * 8 + (header[field.at + i] - '0');
  if (i == 0) return std::nullopt;
  for (; i < field.size; ++i) {
    if (header[field.at + i] != 0 && header[field.at + i] != ' ') return std::nullopt;
  }
  return value;
}

std::string ReadText(std::span<const uint8_t> header, Field field) {
  const char* begin = reinterpret_cast<const char*>(header.data()) + field.at;
  return std::string(begin, strnlen(begin, field.size));
}

bool AllZero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

absl::StatusOr<std::string> TarHeader(std::string_view name, uint64_t size) {
  const auto bad = [&](const char* why) {
    return InvalidError("TAR_INVALID",
                        std::string(name.substr(0, 200)) + ": " + why + "; give it another name");
  };
  if (!IsSafeRelativePath(name)) return bad("is no safe relative path");
  if (size > kTarFileBytesMax) return bad("is larger than a tar file can hold");
  std::string_view prefix, rest = name;
  if (name.size() > kName.size) {  // cut at the first '/' that leaves a short enough name
    const size_t cut = name.find('/', name.size() - kName.size - 1);
    if (cut > kPrefix.size || cut == 0)  // npos is larger than any field
      return bad("is a longer name than a tar file can hold");
    prefix = name.substr(0, cut);
    rest = name.substr(cut + 1);
  }
  std::string header(kTarBlock, '\0');
  Put(header, kName, rest);
  Put(header, kMode, "0000644");
  Put(header, kUid, Octal(0, 7));
  Put(header, kGid, Octal(0, 7));
  Put(header, kSize, Octal(size, 11));
  Put(header, kTime, Octal(0, 11));
  Put(header, kType, "0");
  Put(header, kMagic, kUstar);
  Put(header, kPrefix, prefix);
  const uint64_t sum = SumOf({reinterpret_cast<const uint8_t*>(header.data()), header.size()});
  Put(header, kSum, Octal(sum, 6) + std::string("\0 ", 2));
  return header;
}

std::string TarPadding(uint64_t size) {
  return std::string((kTarBlock - size % kTarBlock) % kTarBlock, '\0');
}

std::string TarEnd() { return std::string(2 * kTarBlock, '\0'); }

absl::Status TarReader::Bad(const std::string& why) const {
  return InvalidError("TAR_INVALID", path_ + ": at byte " + std::to_string(at_) + ": " + why +
                                         "; fetch the file again, or have it packed again");
}

absl::Status TarReader::CheckEnd() const {
  if (bytes_.size() - at_ < 2 * kTarBlock) return Bad("the archive is cut short");
  if (!AllZero(bytes_.subspan(at_))) return Bad("something follows the end of the archive");
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TarEntry>> TarReader::Next() {
  if (bytes_.size() - at_ < kTarBlock) return Bad("the archive is cut short");
  const std::span<const uint8_t> header = bytes_.subspan(at_, kTarBlock);
  if (AllZero(header)) {
    ASSAY_RETURN_IF_ERROR(CheckEnd());
    return std::optional<TarEntry>();
  }
  const auto sum = ReadOctal(header, kSum), size = ReadOctal(header, kSize);
  if (!sum || *sum != SumOf(header) || ReadText(header, kMagic) != "ustar" || !size)
    return Bad("no ustar header");
  TarEntry entry;
  const std::string prefix = ReadText(header, kPrefix);
  entry.name = prefix.empty() ? ReadText(header, kName) : prefix + "/" + ReadText(header, kName);
  const std::string shown = "\"" + entry.name.substr(0, 200) + "\"";
  if (header[kType.at] != '0' && header[kType.at] != 0)
    return Bad(shown + " is no plain file (a link, folder, device or extension)");
  if (!IsSafeRelativePath(entry.name)) return Bad(shown + " would leave the folder");
  std::string lower = entry.name;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (!names_.insert(lower).second)
    return Bad(shown + " is there twice, or differs from another name only in case");
  if (names_.size() > kTarFilesMax) return Bad("too many files");
  const uint64_t begin = at_ + kTarBlock, left = bytes_.size() - begin;
  const uint64_t padded = *size + (kTarBlock - *size % kTarBlock) % kTarBlock;
  if (*size > kTarFileBytesMax || padded > left)
    return Bad(shown + " states more bytes than the archive has");
  entry.bytes = bytes_.subspan(begin, *size);
  if (!AllZero(bytes_.subspan(begin + *size, padded - *size)))
    return Bad(shown + " is followed by bytes that belong to no file");
  at_ = begin + padded;
  return std::optional<TarEntry>(std::move(entry));
}

}  // namespace assay
