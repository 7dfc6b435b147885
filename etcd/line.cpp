#include "etcd/line.hpp"

#include <algorithm>

#include "etcd/layout.hpp"

namespace holdfast::detail::etcd {

bool View::is_gone(EntryRef const& entry) const {
  auto const deleted = deleted_.find(entry.key);
  return (deleted != deleted_.end() && deleted->second > entry.number) || leaving_.contains(entry);
}

void View::learn(Listing& listing) {
  std::erase_if(listing.entries, [&](EntryRef const& entry) { return is_gone(entry); });
  bool const touches = listing.from <= to_ && listing.to >= from_;
  if (!live_ || !touches) {
    entries_.clear();
    from_ = listing.from;
    to_ = listing.from;
  }
  for (EntryRef const& entry : listing.entries)
    if (entry.number < from_ || entry.number >= to_) entries_.emplace(entry.number, entry.key);
  from_ = std::min(from_, listing.from);
  to_ = std::max(to_, listing.to);
}

void View::deleted(std::string const& key, std::uint64_t revision) {
  if (expected_ != 0) {
    auto& known = deleted_[key];  // our own leave's answer may be ahead of what the watch tells
    known = std::max(known, revision);
  }
  std::erase_if(entries_, [&](auto const& each) { return each.second == key && each.first < revision; });
}

void View::leaving(EntryRef const& entry) {
  leaving_.insert(entry);
  entries_.erase(entry.number);
}

void View::arrived() {
  if (--expected_ == 0) deleted_.clear();
}

std::size_t View::count_before(std::uint64_t number, std::size_t most) const {
  std::size_t count = 0;
  for (auto each = entries_.begin(); each != entries_.end() && each->first < number && count < most; ++each) ++count;
  return count;
}

Listing View::before(std::uint64_t number) const {
  Listing listing{{}, 0, number};
  for (auto each = entries_.lower_bound(number); each != entries_.begin();) {
    --each;
    listing.entries.push_back({each->second, each->first});
  }
  return listing;
}

std::optional<Ahead> ahead_by(Rule rule, Listing const& listing) {
  Ahead ahead;
  for (EntryRef const& entry : listing.entries) {
    if (!rule.blocked_by(Layout::kind_of(entry.key))) continue;
    if (ahead.nearest.size() == rule.permits) {
      ahead.more = true;
      return ahead;
    }
    ahead.nearest.push_back(entry);
  }
  if (listing.from != 0 && ahead.nearest.size() < rule.permits) return std::nullopt;
  ahead.more = listing.from != 0;
  return ahead;
}

}  // namespace holdfast::detail::etcd
