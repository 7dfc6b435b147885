#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/rule.hpp"

// The names of entries: "_c_<uuid>-lock-<sequence>", as Curator writes them, so that both exclude each other on one
// path.

namespace holdfast::detail {

/// A child of a lock's directory that stands in line.
struct LineEntry {
  std::string key;
  Kind kind = Kind::lock;
  std::int32_t sequence = 0;
};

/// Sequence numbers are 32 bits wide and wrap around: what is less than half the circle behind came earlier.
constexpr bool before(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b)) < 0;
}

constexpr std::string_view marker(Kind kind) {
  switch (kind) {
    case Kind::read: return "__READ__";
    case Kind::write: return "__WRIT__";
    case Kind::permit: return "lease-";
    case Kind::lock: break;
  }
  return "lock-";
}

/// The server appends ten characters at least, and a minus sign once the numbers have wrapped.
inline std::optional<std::int32_t> parse_sequence(std::string_view digits) {
  std::int32_t value = 0;
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.size() < 10 || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// A child without any known marker, but with a number, belongs to some other recipe and counts as a lock: rather wait
/// for too many than for too few.
inline std::optional<LineEntry> parse_entry(std::string_view name) {
  for (Kind const kind : {Kind::lock, Kind::read, Kind::write, Kind::permit}) {
    auto const at = name.rfind(marker(kind));
    if (at == std::string_view::npos) continue;
    if (auto const number = parse_sequence(name.substr(at + marker(kind).size())))
      return LineEntry{std::string(name), kind, *number};
  }
  if (name.size() < 10) return std::nullopt;
  auto const number = parse_sequence(name.substr(name.size() - 10));
  if (!number) return std::nullopt;
  return LineEntry{std::string(name), Kind::lock, *number};
}

/// The entries among the children of a directory, in line order.
inline std::vector<LineEntry> parse_line(std::vector<std::string> const& children) {
  std::vector<LineEntry> line;
  for (auto const& child : children)
    if (auto entry = parse_entry(child)) line.push_back(std::move(*entry));
  // Relative to one of them: "before" by itself is no order on the whole circle.
  std::int32_t const base = line.empty() ? 0 : line.front().sequence;
  auto const place = [base](LineEntry const& entry) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(entry.sequence) - static_cast<std::uint32_t>(base));
  };
  std::sort(line.begin(), line.end(), [&](auto const& a, auto const& b) { return place(a) < place(b); });
  return line;
}

}  // namespace holdfast::detail
