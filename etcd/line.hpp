#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "common/slots.hpp"
#include "etcd/watches.hpp"

namespace holdfast::detail::etcd {

/// Part of a line as some listing showed it: all entries whose number is at least `from` and below `to`, nearest first.
struct Listing {
  std::vector<EntryRef> entries;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

/// What this client knows of one line. Entries ahead of an own one only ever leave, so a listing and all departures
/// after it tell who is ahead, without asking again.
///
/// No input or output of its own. Thread safety: distinct objects safe; shared objects unsafe.
class View {
 public:
  /// Brings what was listed up to date with what was heard since, and learns it.
  void learn(Listing& listing);

  /// A key was deleted at `revision`: so is every entry of that name with a lower number.
  void deleted(std::string const& key, std::uint64_t revision);

  /// An own entry is on its way out: it will not hold the lock any more, so for us it is gone.
  void leaving(EntryRef const& entry);
  void left(EntryRef const& entry) { leaving_.erase(entry); }

  /// Every departure is told from now on; what was learned so far may be out of date.
  void go_live() { live_ = true; }
  void go_blind() { live_ = false; }
  bool live() const { return live_; }
  bool any_leaving() const { return !leaving_.empty(); }
  bool is_leaving(EntryRef const& entry) const { return leaving_.contains(entry); }

  /// While a listing is on its way, departures must be remembered: they may come in first.
  void expect() { ++expected_; }
  void arrived();

  bool knows_all_before(std::uint64_t number) const { return from_ == 0 && number <= to_; }
  /// Of a number for which knows_all_before(): how many, counted up to `most`.
  std::size_t count_before(std::uint64_t number, std::size_t most) const;
  /// Of a number for which knows_all_before().
  Listing before(std::uint64_t number) const;

 private:
  bool is_gone(EntryRef const& entry) const;

  std::map<std::uint64_t, std::string> entries_;  ///< those from from_ up to to_
  std::uint64_t from_ = 0, to_ = 0;
  bool live_ = false;
  unsigned expected_ = 0;
  std::map<std::string, std::uint64_t> deleted_;  ///< while listings are expected
  std::set<EntryRef> leaving_;
};

/// The nearest blockers by the rule; nothing if the listing does not go back far enough to tell.
std::optional<Ahead> ahead_by(Rule rule, Listing const& listing);

}  // namespace holdfast::detail::etcd
