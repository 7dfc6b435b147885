#include "tests/sim/checker.hpp"

#include <algorithm>

namespace holdfast::sim {

using Change = detail::MemoryService::Change;

namespace {

constexpr Duration kTooLittle = 250ms;  ///< clearly less than the margin at which a loss is told, a tenth of 3 s

}  // namespace

void Checker::changed(Change const& change) {
  std::uint64_t const number = change.entry.ref.number;
  auto& line = lines_[change.line];
  if (change.what == Change::What::joined) {
    line[number] = {change.entry.label, change.entry.kind, change.owner};
    world_.say("service", "entry " + std::to_string(number) + " of " + change.entry.label + " joins " + change.line);
    return;
  }
  line.erase(number);
  char const* const how = change.what == Change::What::left      ? " leaves "
                          : change.what == Change::What::expired ? " goes with its session from "
                                                                 : " is removed by a stranger from ";
  world_.say("service", "entry " + std::to_string(number) + " of " + change.entry.label + how + change.line);
  if (change.what != Change::What::left) return;
  if (change.by != change.owner)
    world_.broke("nobody releases another's lock", "entry " + std::to_string(number) + " of " + change.entry.label +
                                                       " was removed by session " + std::to_string(change.by));
  // A grant may have come, and run out, while the user's code could not be told of either.
  auto const waits = wanted_.find(change.entry.label);
  if (waits != wanted_.end() && !waits->second->callbacks_blocked() && !waits->second->paused())
    world_.broke("first come, first served", "entry " + std::to_string(number) + " of " + change.entry.label +
                                                 ", who still waits, was removed by its own client");
}

void Checker::committed(std::string const& line, detail::EntryRef const& entry, Commit const& what) {
  std::string const value = *what.writes().begin()->second;
  std::uint64_t const number = entry.number;
  world_.say("service", "entry " + std::to_string(number) + " commits " + value);
  if (!done_commits_.insert(value).second) world_.broke("a commit is done once", value + " was done twice");
  if (refused_commits_.contains(value))
    world_.broke("a late request does no harm", value + " was done after its owner was told that nothing was written");
  auto const& entries = lines_.at(line);
  if (!entries.contains(number)) world_.broke("a commit is done under its lock", value + " was done without an entry");
  bool const exclusive = entries.contains(number) && entries.at(number).kind == Kind::lock;
  std::uint64_t& last = last_commit_[line];
  if (exclusive && number < last)
    world_.broke("a late request does no harm",
                 value + " was done after one of entry " + std::to_string(last) + ", which came later in line");
  last = std::max(last, number);
}

void Checker::told_of_commit(std::string const& value, bool done) {
  if (!done) refused_commits_.insert(value);
  if (done != done_commits_.contains(value))
    world_.broke("one outcome", "the owner of " + value + " was told that it was " + (done ? "" : "not ") + "done");
}

void Checker::forget(std::string const& who) {
  std::erase_if(wanted_, [&](auto const& each) { return each.first.starts_with(who + "#"); });
}

void Checker::granted(Held const& held, bool at_once) {
  Fence const fence = held.hold.fence();
  if (!seen_.emplace(held.line, fence).second)
    world_.broke("one outcome", "fence " + fence.to_string() + " of " + held.line + " was granted twice");
  if (at_once && !tampered_ && held.told.stop_requested() && held.hold.valid_for() < kTooLittle)
    world_.broke("never granted without proof", held.who + " was given " + held.line + " when its time was over");
  // A grant that was delivered when it had already run out has no place in the order of those that had not; nor has one
  // whose session an operator ended a moment before: its writes are refused, which is what the fence is for.
  if (!held.rule.exclusive() || !held.hold.valid() || tampered_) return;
  Fence& highest = highest_[held.line];
  if (fence <= highest)
    world_.broke("fences grow",
                 held.who + " got " + fence.to_string() + " on " + held.line + " after " + highest.to_string());
  highest = std::max(highest, fence);
}

void Checker::after_step(std::vector<Held*> const& holds) {
  if (!tampered_) exclusion(holds);
  for (Held* const held : holds) {
    if (held->machine->dead()) continue;
    if (!tampered_ && held->hold.valid()) rightful(*held, holds);
    told(*held);
  }
}

/// Two holds of which one excludes the other are never both valid; of a semaphore never more than its permits.
void Checker::exclusion(std::vector<Held*> const& holds) {
  for (Held const* const a : holds) {
    if (a->machine->dead() || !a->hold.valid()) continue;
    std::size_t others = 0;
    for (Held const* const b : holds)
      if (b != a && b->line == a->line && !b->machine->dead() && b->hold.valid() && a->rule.blocked_by(b->kind))
        ++others;
    if (others >= a->rule.permits)
      world_.broke("exclusion while valid", a->who + " holds " + a->line + " together with " + std::to_string(others) +
                                                " others; " + describe());
  }
}

/// Whoever holds stands in the service's line, and nobody is ahead who would block him: save what his own client is
/// just giving back.
void Checker::rightful(Held const& held, std::vector<Held*> const& holds) {
  auto const line = lines_.find(held.line);
  std::uint64_t const number = held.hold.fence().token();
  if (line == lines_.end() || !line->second.contains(number))
    return world_.broke("exclusion while valid",
                        held.who + " is valid on " + held.line + ", but its entry is gone; " + describe());
  std::uint64_t const owner = line->second.at(number).owner;
  std::size_t ahead = 0;
  for (auto const& [other, entry] : line->second) {
    if (other >= number) break;
    bool const given_back =
        entry.owner == owner && std::none_of(holds.begin(), holds.end(), [&](Held const* each) {
          return each->line == held.line && each->hold.fence().token() == other && each->hold.valid();
        });
    if (held.rule.blocked_by(entry.kind) && !given_back) ++ahead;
  }
  if (ahead >= held.rule.permits)
    world_.broke("first come, first served",
                 held.who + " holds " + held.line + " with " + std::to_string(ahead) + " ahead of it; " + describe());
}

/// Before valid() turns false the owner was told, unless the process was not running; and whoever asks is told even
/// then.
void Checker::told(Held& held) {
  Machine& machine = *held.machine;
  if (machine.paused() || held.hold.valid()) return;
  if (!held.hold.lost().stop_requested())
    world_.broke("loss is told", held.who + " is no longer valid on " + held.line + ", and lost() says nothing");
  bool const just_woke = machine.last_mishap() > TimePoint() && world_.now() - machine.last_mishap() < 1ms;
  if (!machine.callbacks_blocked() && !just_woke && !held.told.stop_requested())
    world_.broke("loss is told", held.who + " is no longer valid on " + held.line + ", and its token did not fire");
}

std::optional<std::uint64_t> Checker::admitted(std::string const& line, std::string const& label,
                                               Rule const& rule) const {
  auto const place = lines_.find(line);
  if (place == lines_.end()) return std::nullopt;
  std::size_t ahead = 0;
  for (auto const& [number, entry] : place->second) {
    if (entry.label == label) return ahead < rule.permits ? std::optional(number) : std::nullopt;
    if (rule.blocked_by(entry.kind)) ++ahead;
  }
  return std::nullopt;
}

bool Checker::stands(std::string const& who) const {
  for (auto const& [name, line] : lines_)
    for (auto const& [number, entry] : line)
      if (entry.label.starts_with(who + "#")) return true;
  return false;
}

std::size_t Checker::entries() const {
  std::size_t n = 0;
  for (auto const& [name, line] : lines_) n += line.size();
  return n;
}

std::string Checker::describe() const {
  std::string text = "lines:";
  for (auto const& [name, line] : lines_) {
    text += " " + name + " [";
    for (auto const& [number, entry] : line) text += " " + std::to_string(number) + ":" + entry.label;
    text += " ]";
  }
  return text;
}

}  // namespace holdfast::sim
