#include "common/names.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "common/error.hpp"
#include "common/text.hpp"

namespace holdfast::detail {
namespace {

bool unreserved(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == '~';
}

std::optional<unsigned> hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return std::nullopt;
}

std::optional<char> escaped(std::string_view text, std::size_t at) noexcept {
  if (text.size() - at < 3) return std::nullopt;
  auto const high = hex_digit(text[at + 1]);
  auto const low = hex_digit(text[at + 2]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high * 16 + *low);
}

std::size_t encoded_size(std::string_view text) noexcept {
  auto const plain = static_cast<std::size_t>(std::count_if(text.begin(), text.end(), unreserved));
  return plain + 3 * (text.size() - plain);
}

}  // namespace

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  out.reserve(encoded_size(text));
  for (char const c : text) {
    if (unreserved(c)) {
      out += c;
      continue;
    }
    auto const byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4U];
    out += kHex[byte & 0x0FU];
  }
  return out;
}

Result<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    auto const c = escaped(text, at);
    if (!c) return fail(errc::invalid_argument, "'%' is not followed by two hexadecimal digits");
    out += *c;
    at += 2;
  }
  return out;
}

Result<std::string> encode_name(std::string_view name) {
  if (name.empty()) return fail(errc::invalid_argument, "lock name is empty");
  if (!valid_utf8(name)) return fail(errc::invalid_argument, "lock name is not valid UTF-8");
  // As path segments these two would mean a directory, so their dots are encoded as well.
  if (name == ".") return "%2E";
  if (name == "..") return "%2E%2E";
  if (std::size_t const size = encoded_size(name); size > kNameLimit) {
    return fail(errc::invalid_argument, "lock name is " + std::to_string(size) +
                                            " bytes after encoding; the limit is " + std::to_string(kNameLimit));
  }
  return percent_encode(name);
}

std::string default_label() {
  std::array<char, 256> host{};
  // The last byte stays NUL: gethostname need not terminate a name that it cut.
  bool const known = ::gethostname(host.data(), host.size() - 1) == 0 && host.front() != '\0';
  return std::string(known ? host.data() : "unknown") + ":" + std::to_string(::getpid());
}

}  // namespace holdfast::detail
