#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/rule.hpp"

namespace holdfast::detail::etcd {

/// A range of keys: from `key` up to, and without, `end`. No end: the one key.
struct KeyRange {
  std::string key;
  std::string end;
};

/// Where things are in etcd:
///
///     <root>/<name>/<lease in hex>-<slot>    an entry; the name is percent-encoded, the value is the owner's label
///     <root>/@guard/<lease in hex>           the client's guard; '@' is in no encoded name
///     <root>/@commit/<lease in hex>-<slot>   the number of the last commit that was done in this slot
///
/// Go's concurrency.Mutex, `etcdctl lock` and the server's Lock RPC put `<name>/<lease in hex>`, so that all of them
/// stand in one line with ours.
///
/// Thread safety: distinct objects safe; shared objects safe.
class Layout {
 public:
  explicit Layout(std::string root) : root_(std::move(root)) {}

  std::string guard(std::int64_t lease) const;
  std::string receipt(std::int64_t lease, std::uint32_t slot) const;
  KeyRange line(std::string_view line) const;  ///< all entries of a line
  KeyRange everything() const;                 ///< all lines, and what else is there
  std::string entry_key(std::string_view line, std::string_view entry) const;
  /// The line that a key is in; empty if it is no entry's.
  std::string_view line_of(std::string_view key) const;
  std::string const& root() const { return root_; }

  /// The last part of an entry's key, by which it is known in this library.
  static std::string entry_name(std::int64_t lease, std::uint32_t slot, Kind kind);
  static Kind kind_of(std::string_view entry);

 private:
  std::string const root_;
};

}  // namespace holdfast::detail::etcd
