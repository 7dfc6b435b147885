#include "etcd/etcd_backend.hpp"
#include "etcd/listing.hpp"

// Who is woken by a departure. One watch over the whole line tells everything, so that neither a hand-over nor the next
// wait costs a read; but it tells it to every client that has one. So only those near the front have it: a client with
// fewer than kNear entries ahead of its own. Everyone further back watches the one entry ahead of it.
//
// A watch over the line stays for kNear more departures when nobody waits by it any more, so that two clients who
// alternate never make it anew. Of the clients that a departure tells, then, at most kNear - 1 are near the front, at
// most kNear held the lock in turn just now, and at most one watches the entry itself: 16, however many wait.

namespace holdfast::detail::etcd {

WatchId EtcdBackend::await_gone(std::string const& name, EntryRef const& entry, std::function<void(bool)> gone) {
  Line& at = line(name);
  bool const near = at.view.knows_all_before(entry.number) &&
                    at.view.count_before(entry.number, kNear) + 1 < static_cast<std::size_t>(kNear);
  WatchId const id = ++last_wait_;
  at.waits.emplace(entry.key, Wait{id, entry, std::move(gone), near});
  places_.emplace(id, std::pair(name, entry.key));
  if (near && at.whole == 0) watch_whole(name, at);
  if (!near && !at.single.contains(entry.key)) watch_single(name, at, entry.key);
  if (near) at.idle = 0;
  return id;
}

void EtcdBackend::forget(WatchId id) {
  auto const place = places_.find(id);
  if (place == places_.end()) return;
  auto const [name, entry] = place->second;
  places_.erase(place);
  Line& at = line(name);
  auto const [begin, end] = at.waits.equal_range(entry);
  for (auto each = begin; each != end; ++each)
    if (each->second.id == id) {
      at.waits.erase(each);
      break;
    }
  drop_single(at, entry);
  tidy(name);
}

void EtcdBackend::watch_whole(std::string const& name, Line& at) {
  at.idle = 0;
  at.whole = watches_.add(layout_.line(name), 2 * kNear,
                          {[this, name](Watches::Present const& present) { whole_synced(name, present); },
                           [this, name](std::string const& key, std::int64_t revision) {
                             deleted(name, key, revision);
                             count_idle(name);
                           },
                           [this, name] { line(name).view.go_blind(); }});
}

void EtcdBackend::watch_single(std::string const& name, Line& at, std::string const& entry) {
  at.single[entry] = watches_.add(
      {layout_.entry_key(name, entry), ""}, 0,
      {[this, name, entry](Watches::Present const& present) { single_synced(name, entry, present); },
       [this, name](std::string const& key, std::int64_t revision) { deleted(name, key, revision); }, [] {}});
}

void EtcdBackend::whole_synced(std::string const& name, Watches::Present const& present) {
  Line& at = line(name);
  Listing listing{{}, 0, static_cast<std::uint64_t>(present.revision) + 1};
  for (auto kv = present.keys.rbegin(); kv != present.keys.rend(); ++kv)
    listing.entries.push_back(to_entry(layout_, **kv));
  if (!present.all) listing.to = listing.entries.front().number + 1;
  std::set<EntryRef> const there(listing.entries.begin(), listing.entries.end());
  at.view.learn(listing);
  at.view.go_live();
  // Own entries on their way out may crowd the listing: whoever waits for one beyond it gets a watch for it alone.
  for (auto& [entry, wait] : at.waits)
    if (wait.follows && wait.entry.number >= listing.to) {
      wait.follows = false;
      if (!at.single.contains(entry)) watch_single(name, at, entry);
    }
  fire(name, [&](EntryRef const& entry) { return entry.number < listing.to && !there.contains(entry); });
}

void EtcdBackend::single_synced(std::string const& name, std::string const& entry, Watches::Present const& present) {
  std::uint64_t const now =
      present.keys.empty() ? 0 : static_cast<std::uint64_t>(present.keys.front()->create_revision());
  auto const revision = static_cast<std::uint64_t>(present.revision);
  fire(name, [&](EntryRef const& each) { return each.key == entry && each.number != now && each.number <= revision; });
}

void EtcdBackend::deleted(std::string const& name, std::string const& key, std::int64_t revision) {
  std::string const entry = entry_of(name, key);
  auto const number = static_cast<std::uint64_t>(revision);
  Line& at = line(name);
  at.view.deleted(entry, number);
  // An own entry that somebody else removed: before anyone is told that the way is free.
  auto const place = at.own.lower_bound({entry, 0});
  if (place != at.own.end() && place->first.key == entry && place->first.number < number &&
      !at.view.is_leaving(place->first)) {
    EntryRef const own = place->first;
    left(name, own, revision);
    host_.removed(name, own);
  }
  fire(name, [&](EntryRef const& each) { return each.key == entry && each.number < number; });
}

/// Tells those who wait for such entries.
void EtcdBackend::fire(std::string const& name, std::function<bool(EntryRef const&)> const& which) {
  Line& at = line(name);
  for (auto each = at.waits.begin(); each != at.waits.end();) {
    Wait& wait = each->second;
    if (!which(wait.entry)) {
      ++each;
      continue;
    }
    bool const nobody_ahead = at.view.live() && at.view.knows_all_before(wait.entry.number) &&
                              at.view.count_before(wait.entry.number, 1) == 0;
    host_.defer([gone = std::move(wait.gone), nobody_ahead] { gone(nobody_ahead); });
    places_.erase(wait.id);
    std::string const entry = wait.entry.key;
    each = at.waits.erase(each);
    drop_single(at, entry);
  }
  tidy(name);
}

void EtcdBackend::drop_single(Line& at, std::string const& entry) {
  auto const watch = at.single.find(entry);
  if (watch == at.single.end() || at.waits.contains(entry)) return;
  watches_.remove(watch->second);
  at.single.erase(watch);
}

/// Ends the watch over the line once enough has happened without us.
void EtcdBackend::count_idle(std::string const& name) {
  auto const place = lines_.find(name);
  if (place == lines_.end() || place->second.whole == 0) return;
  Line& at = place->second;
  for (auto const& [key, wait] : at.waits)
    if (wait.follows) return;
  if (++at.idle < kNear) return;
  watches_.remove(std::exchange(at.whole, 0));
  at.view.go_blind();
  tidy(name);
}

}  // namespace holdfast::detail::etcd
