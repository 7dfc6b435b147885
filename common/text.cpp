#include "common/text.hpp"

#include <charconv>

namespace holdfast::detail {
namespace {

constexpr std::size_t kQuotedLimit = 120;

bool continues(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

struct Lead {
  std::size_t length;
  std::uint32_t bits;
  std::uint32_t least;  // a smaller code point in this many bytes is overlong
};

Lead lead(unsigned char c) noexcept {
  if (c < 0x80) return {1, c, 0};
  if ((c & 0xE0U) == 0xC0U) return {2, c & 0x1FU, 0x80};
  if ((c & 0xF0U) == 0xE0U) return {3, c & 0x0FU, 0x800};
  if ((c & 0xF8U) == 0xF0U) return {4, c & 0x07U, 0x10000};
  return {0, 0, 0};
}

/// The length of the character that `text` begins with; 0 if it is not one.
std::size_t character(std::string_view text) noexcept {
  auto const [length, bits, least] = lead(static_cast<unsigned char>(text.front()));
  if (length == 0 || length > text.size()) return 0;
  std::uint32_t point = bits;
  for (char const c : text.substr(1, length - 1)) {
    if (!continues(c)) return 0;
    point = (point << 6U) | (static_cast<unsigned char>(c) & 0x3FU);
  }
  bool const surrogate = point >= 0xD800 && point <= 0xDFFF;
  return point < least || surrogate || point > 0x10FFFF ? 0 : length;
}

void append_escaped(std::string& out, unsigned char c) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  out += "\\x";
  out += kHex[c >> 4U];
  out += kHex[c & 0x0FU];
}

}  // namespace

bool valid_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    std::size_t const length = character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string_view shorten(std::string_view text, std::size_t limit) noexcept {
  if (text.size() <= limit) return text;
  std::size_t end = limit;
  while (end > 0 && limit - end < 3 && continues(text[end])) --end;
  return text.substr(0, end);
}

std::string in_quotes(std::string_view text) {
  std::string_view const shown = shorten(text, kQuotedLimit);
  bool const readable = valid_utf8(shown);
  std::string out = "'";
  for (char const c : shown) {
    auto const byte = static_cast<unsigned char>(c);
    bool const plain = byte >= 0x20 && byte != 0x7F && (byte < 0x80 || readable);
    if (plain) {
      out += c;
    } else {
      append_escaped(out, byte);
    }
  }
  out += shown.size() < text.size() ? "...'" : "'";
  return out;
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) noexcept {
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  std::uint64_t value = 0;
  char const* const end = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<Fence> parse_fence(std::string_view text) noexcept {
  std::size_t const dot = text.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  auto const epoch = parse_decimal(text.substr(0, dot));
  auto const token = parse_decimal(text.substr(dot + 1));
  if (!epoch || !token) return std::nullopt;
  return Fence(*epoch, *token);
}

}  // namespace holdfast::detail
