#include "tools/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>

namespace holdfast::tool {
namespace {

using std::chrono::milliseconds;

struct Unit {
  std::string_view name;
  std::int64_t in_milliseconds;
};

constexpr std::array kUnits = {Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000}, Unit{"h", 3'600'000}};

// The library counts deadlines in nanoseconds.
constexpr std::int64_t kLongest = std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds::max()).count();

std::string hex_escape(char const* format, char byte) {
  char text[8];
  std::snprintf(text, sizeof text, format, static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text;
}

bool is_control(char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f; }

/// The length of the UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t utf8_length(std::string_view text) {
  auto const byte = [&](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  unsigned const lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  // The second byte tells overlong forms, surrogates and what is above U+10FFFF.
  unsigned const low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned const high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::optional<milliseconds> parse_duration(std::string_view text) {
  std::size_t const digits = std::min(text.find_first_not_of("0123456789"), text.size());
  auto const* const unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](Unit u) { return u.name == text.substr(digits); });
  if (digits == 0 || unit == kUnits.end()) return std::nullopt;
  std::int64_t count = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + digits, count);
  if (error != std::errc() || count > kLongest / unit->in_milliseconds) return std::nullopt;
  return milliseconds(count * unit->in_milliseconds);
}

std::string brief(milliseconds duration) {
  std::int64_t const count = std::max<std::int64_t>(duration.count(), 0);
  auto const unit =
      std::find_if(kUnits.rbegin(), kUnits.rend() - 1, [&](Unit u) { return count >= u.in_milliseconds; });
  return std::to_string(count / unit->in_milliseconds).append(unit->name);
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    std::size_t const length = utf8_length(text);
    if (length == 0) {
      out += "\\ufffd";
    } else if (is_control(text[0])) {
      out += hex_escape("\\u%04x", text[0]);
    } else {
      if (text[0] == '"' || text[0] == '\\') out += '\\';
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out += '"';
}

std::string one_word(std::string_view text) {
  std::string out;
  for (char const byte : text) {
    if (is_control(byte) || byte == ' ') {
      out += hex_escape("\\x%02x", byte);
    } else {
      out += byte;
    }
  }
  return out.empty() ? "-" : out;
}

}  // namespace holdfast::tool
