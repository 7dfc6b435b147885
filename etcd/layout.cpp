#include "etcd/layout.hpp"

#include <array>
#include <charconv>

namespace holdfast::detail::etcd {
namespace {

constexpr std::string_view kGuard = "@guard", kCommit = "@commit";

/// What an entry's name ends in, by kind; the exclusive lock's is bare, since others know only that.
constexpr std::array<std::string_view, 4> kMarks = {"", "-r", "-w", "-p"};

std::string hex(std::int64_t number) {
  std::array<char, 16> text{};
  auto const end = std::to_chars(text.data(), text.data() + text.size(), static_cast<std::uint64_t>(number), 16).ptr;
  return {text.data(), end};
}

/// Every key that begins with `prefix`, which ends in '/'.
KeyRange under(std::string prefix) {
  std::string end = prefix;
  ++end.back();
  return {std::move(prefix), std::move(end)};
}

}  // namespace

std::string Layout::guard(std::int64_t lease) const { return entry_key(kGuard, hex(lease)); }

std::string Layout::receipt(std::int64_t lease, std::uint32_t slot) const {
  return entry_key(kCommit, entry_name(lease, slot, Kind::lock));
}

KeyRange Layout::line(std::string_view line) const { return under(entry_key(line, "")); }

KeyRange Layout::everything() const { return under(root_ + "/"); }

std::string Layout::entry_key(std::string_view line, std::string_view entry) const {
  std::string key;
  key.reserve(root_.size() + line.size() + entry.size() + 2);
  key.append(root_).append("/").append(line).append("/").append(entry);
  return key;
}

std::string_view Layout::line_of(std::string_view key) const {
  key.remove_prefix(root_.size() + 1);
  std::string_view const line = key.substr(0, key.find('/'));
  return line.starts_with('@') || line.size() == key.size() ? std::string_view() : line;
}

std::string Layout::entry_name(std::int64_t lease, std::uint32_t slot, Kind kind) {
  return hex(lease).append("-").append(std::to_string(slot)).append(kMarks[static_cast<std::size_t>(kind)]);
}

Kind Layout::kind_of(std::string_view entry) {
  for (Kind const kind : {Kind::read, Kind::write, Kind::permit})
    if (entry.ends_with(kMarks[static_cast<std::size_t>(kind)])) return kind;
  return Kind::lock;
}

}  // namespace holdfast::detail::etcd
