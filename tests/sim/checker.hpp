#pragma once

#include <holdfast/holdfast.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "local/memory_service.hpp"
#include "tests/sim/machine.hpp"

namespace holdfast::sim {

using detail::Kind;
using detail::Rule;

/// A hold in the hands of a user of the library.
struct Held {
  Machine* machine = nullptr;
  std::string who;
  std::string line;
  Kind kind = Kind::lock;
  Rule rule;
  Hold hold;
  std::stop_token told;  ///< taken when the hold was delivered
};

/// Sees what the service does and what the users hold, and compares it with the contract at every step.
class Checker {
 public:
  /// `tampered`: entries or sessions are removed behind their owners' backs, so that exclusion rests on the fences
  /// alone.
  Checker(World& world, bool tampered) : world_(world), tampered_(tampered) {}

  void changed(detail::MemoryService::Change const& change);
  void committed(std::string const& line, detail::EntryRef const& entry, Commit const& what);
  void told_of_commit(std::string const& value, bool done);
  /// `at_once`: nothing kept the user's code from being told of it.
  void granted(Held const& held, bool at_once);
  void after_step(std::vector<Held*> const& holds);

  /// The claim that bears this label stands in line and wants to.
  void waits(std::string const& label, Machine const& where) { wanted_[label] = &where; }
  void waits_no_more(std::string const& label) { wanted_.erase(label); }
  void forget(std::string const& who);  ///< its claims may go: its process or its client has ended

  /// The number of the entry with this label, if the rule admits it now.
  std::optional<std::uint64_t> admitted(std::string const& line, std::string const& label, Rule const& rule) const;
  bool stands(std::string const& who) const;  ///< in any line

  std::size_t entries() const;
  std::string describe() const;  ///< the lines as they are

  struct Entry {
    std::string label;
    Kind kind;
    std::uint64_t owner;
  };
  std::map<std::string, std::map<std::uint64_t, Entry>> const& lines() const { return lines_; }

 private:
  void exclusion(std::vector<Held*> const& holds);
  void rightful(Held const& held, std::vector<Held*> const& holds);
  void told(Held& held);

  World& world_;
  bool const tampered_;
  std::map<std::string, std::map<std::uint64_t, Entry>> lines_;  ///< as the service has them, by number
  std::map<std::string, Fence> highest_;                         ///< fence of a line's exclusive grants
  std::set<std::pair<std::string, Fence>> seen_;
  std::map<std::string, Machine const*> wanted_;
  std::map<std::string, std::uint64_t> last_commit_;  ///< by line: number of the entry that made it
  std::set<std::string> done_commits_;                ///< by value
  std::set<std::string> refused_commits_;             ///< whose owner was told that nothing was written
};

}  // namespace holdfast::sim
