#pragma once

#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <map>
#include <optional>
#include <string>

namespace holdfast {

/// Writes to keys of your own in the coordination service, and conditions on them, for `Hold::commit`: all of it
/// happens or none, and only while the lock is still held.
///
///     auto done = hold->commit(Commit().if_equals("/app/leader", old).put("/app/leader", mine));
///
/// This is the safest resource there is: what is written here needs no fence, since the service itself refuses it once
/// the lock is gone. It suits small state, such as a cursor, a configuration or a mark that something is done.
///
/// A key is the service's own: in etcd any bytes, in ZooKeeper the path of a node, whose parents are made when missing.
/// A program that is to run on either uses paths ("/app/cursor"). Keys outside the place where the locks live, please:
/// one inside is refused. At most 100 writes and conditions, and a million bytes, in one commit.
///
/// In `file:` all keys stand in one file that every commit writes anew, and in `memory:` in memory; either is private
/// to holdfast.
///
/// Thread safety: distinct objects safe; shared objects unsafe.
class HOLDFAST_API Commit {
 public:
  Commit();

  /// Gives the key this value. Of several writes to one key the last one counts.
  Commit& put(std::string key, std::string value);

  /// Removes the key; fine if it is not there.
  Commit& erase(std::string key);

  /// Nothing is done unless the key has this value. Of several conditions on one key the last one counts.
  Commit& if_equals(std::string key, std::string value);

  /// Nothing is done unless the key is not there.
  Commit& if_absent(std::string key);

  /// By key; no value: absent.
  using Values = std::map<std::string, std::optional<std::string>>;
  [[nodiscard]] Values const& writes() const noexcept { return writes_; }
  [[nodiscard]] Values const& conditions() const noexcept { return conditions_; }

  /// Tells one commit from another: a copy has the same number, whatever is changed gets a new one.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  Values writes_;
  Values conditions_;
  std::uint64_t id_;
};

}  // namespace holdfast
