#include "storage/base/number_format.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace assay {
namespace {

// value = 0.d1d2d3... * 10^point, shortest digits.
struct Decimal {
  std::string digits;
  int point = 0;
  bool negative = false;
};

Decimal Shortest(double value) {
  Decimal out;
  out.negative = std::signbit(value);
  char buffer[40];
  char* const end = std::to_chars(buffer, buffer + sizeof(buffer) - 1, std::fabs(value),
                                  std::chars_format::scientific)
                        .ptr;
  *end = '\0';  // atoi below reads to the terminator
  const char* p = buffer;
  for (; p != end && *p != 'e'; ++p) {
    if (*p != '.') out.digits += *p;
  }
  out.point = std::atoi(p + 1) + 1;
  while (out.digits.size() > 1 && out.digits.back() == '0') out.digits.pop_back();
  return out;
}

std::string Fixed(const Decimal& d) {
  const int n = static_cast<int>(d.digits.size());
  if (d.point <= 0) return "0." + std::string(static_cast<size_t>(-d.point), '0') + d.digits;
  if (d.point >= n) return d.digits + std::string(static_cast<size_t>(d.point - n), '0');
  return d.digits.substr(0, static_cast<size_t>(d.point)) + "." +
         d.digits.substr(static_cast<size_t>(d.point));
}

std::string Mantissa(const Decimal& d) {
  return d.digits.size() == 1 ? d.digits : d.digits.substr(0, 1) + "." + d.digits.substr(1);
}

}  // namespace

std::string PythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  const Decimal d = Shortest(value);
  const int exponent = d.point - 1;
  std::string out = d.negative ? "-" : "";
  if (exponent >= -4 && exponent < 16) {
    out += Fixed(d);
    if (d.point >= static_cast<int>(d.digits.size())) out += ".0";
    return out;
  }
  char suffix[16];
  std::snprintf(suffix, sizeof(suffix), "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
  return out + Mantissa(d) + suffix;
}

std::string EcmaScriptNumber(double value) {
  if (value == 0) return "0";
  const Decimal d = Shortest(value);
  std::string out = d.negative ? "-" : "";
  if (d.point > -6 && d.point <= 21) return out + Fixed(d);
  const int exponent = d.point - 1;
  return out + Mantissa(d) + (exponent < 0 ? "e-" : "e+") + std::to_string(std::abs(exponent));
}

std::string HexFloat(double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%a", value);
  return buffer;
}

}  // namespace assay
