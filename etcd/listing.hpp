#pragma once

#include "etcd/layout.hpp"
#include "etcd/line.hpp"
#include "etcd/rpc.pb.h"

// The few questions that are put to etcd about a line, and what their answers mean.

namespace holdfast::detail::etcd {

/// So many entries ahead are shown at once; a client that has fewer than this ahead of it follows the whole line.
inline constexpr std::int64_t kNear = 8;

/// How many have to be shown to apply the rule; 0: all, since those that block may be far apart.
inline std::int64_t listing_limit(Rule rule) {
  return rule.blockers == 0xff ? std::max<std::int64_t>(kNear, rule.permits) + 1 : 0;
}

inline pb::RangeRequest nearest_ahead(KeyRange const& line, std::int64_t limit) {
  pb::RangeRequest request;
  request.set_key(line.key);
  request.set_range_end(line.end);
  request.set_limit(limit);
  request.set_keys_only(true);
  request.set_sort_order(pb::RangeRequest::DESCEND);
  request.set_sort_target(pb::RangeRequest::CREATE);
  return request;
}

inline EntryRef to_entry(Layout const& layout, pb::KeyValue const& kv) {
  auto const line = layout.line_of(kv.key());
  return {kv.key().substr(layout.root().size() + line.size() + 2), static_cast<std::uint64_t>(kv.create_revision())};
}

/// Everyone before `number`, or the nearest ones.
inline Listing to_listing(Layout const& layout, pb::RangeResponse const& response, std::uint64_t number) {
  Listing listing{{}, 0, number};
  for (auto const& kv : response.kvs())
    if (static_cast<std::uint64_t>(kv.create_revision()) < number) listing.entries.push_back(to_entry(layout, kv));
  if (response.more()) listing.from = listing.entries.empty() ? number : listing.entries.back().number;
  return listing;
}

inline pb::Compare if_modified_at(std::string key, std::int64_t revision) {
  pb::Compare compare;
  compare.set_key(std::move(key));
  compare.set_target(pb::Compare::MOD);
  compare.set_mod_revision(revision);
  return compare;
}

inline pb::Compare if_created_at(std::string key, std::uint64_t revision) {
  pb::Compare compare;
  compare.set_key(std::move(key));
  compare.set_target(pb::Compare::CREATE);
  compare.set_create_revision(static_cast<std::int64_t>(revision));
  return compare;
}

inline pb::Compare if_equal(std::string key, std::string value) {
  pb::Compare compare;
  compare.set_key(std::move(key));
  compare.set_target(pb::Compare::VALUE);
  compare.set_value(std::move(value));
  return compare;
}

/// Nobody in the range.
inline pb::Compare if_absent(KeyRange const& range) {
  pb::Compare compare = if_created_at(range.key, 0);
  compare.set_range_end(range.end);
  return compare;
}

}  // namespace holdfast::detail::etcd
