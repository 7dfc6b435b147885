#include <algorithm>

#include "common/error.hpp"
#include "etcd/etcd_backend.hpp"
#include "etcd/listing.hpp"

namespace holdfast::detail::etcd {
namespace {

/// So many entries of one client in one line make the listing dear that goes with each join: the server sorts the whole
/// line for it. Then they join without, and one listing serves all that joined meanwhile.
constexpr std::size_t kCrowd = 64;

}  // namespace

/// One join from its start to its answer.
struct EtcdBackend::Joining {
  Join request;
  Reply<Joined> reply;
  std::uint32_t slot = 0;
  std::string name;  ///< of the entry
};

void EtcdBackend::join(Join request, Reply<Joined> reply) {
  auto const joining = std::make_shared<Joining>(Joining{std::move(request), std::move(reply), 0, {}});
  Op op;
  op.compares_guard = true;
  op.fail = failing(joining->reply);
  if (keeper_.lease() != 0) {
    Line& at = line(joining->request.line);
    joining->slot = at.slots.take();
    joining->name = Layout::entry_name(keeper_.lease(), joining->slot, joining->request.kind);
    at.view.expect();
    op.fail = [this, joining](error_code why) {
      if (why != errc::lost) end_join(joining);  // a lost session took the line with it
      joining->reply(why);
    };
  }
  op.send = [this, joining](OpId id) { ops_.at(id).doubted ? settle(id, joining) : send_join(id, joining); };
  add(std::move(op));
}

/// Put if absent, and who is ahead, in one round trip. The guard's revision is compared, so that a copy of this request
/// that arrives late does nothing.
void EtcdBackend::send_join(OpId id, std::shared_ptr<Joining> const& joining) {
  Join const& request = joining->request;
  std::string const key = layout_.entry_key(request.line, joining->name);
  KeyRange const all = layout_.line(request.line);

  pb::TxnRequest txn;
  *txn.add_compare() = if_modified_at(keeper_.guard_key(), keeper_.guard_revision());
  // A try leaves nothing if anyone is there. Own entries on their way out are not anyone: then it joins, and looks.
  bool const only_if_empty = request.only_if_free && request.rule.exclusive() && !line(request.line).view.any_leaving();
  *txn.add_compare() = if_absent(only_if_empty ? all : KeyRange{key, ""});

  if (request.only_if_free || line(request.line).own.size() < kCrowd)
    *txn.add_success()->mutable_request_range() = nearest_ahead(all, listing_limit(request.rule));
  auto& put = *txn.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(request.label);
  put.set_lease(keeper_.lease());

  txn.add_failure()->mutable_request_range()->set_key(keeper_.guard_key());
  txn.add_failure()->mutable_request_range()->set_key(key);
  members_.wire()->txn(std::move(txn), [this, id, joining](Failure const& why, pb::TxnResponse const& response) {
    if (ops_.contains(id) && !trouble(id, why)) join_answered(id, joining, response);
  });
}

void EtcdBackend::join_answered(OpId id, std::shared_ptr<Joining> const& joining, pb::TxnResponse const& response) {
  keeper_.heard(response.header());
  if (response.succeeded()) {
    auto const number = static_cast<std::uint64_t>(response.header().revision());
    auto const& first = response.responses(0);
    if (!first.has_response_range()) return joined(id, joining, number, std::nullopt);
    return joined(id, joining, number, to_listing(layout_, first.response_range(), number));
  }
  auto const& guard = response.responses(0).response_range();
  auto const& entry = response.responses(1).response_range();
  auto const revision = guard.kvs_size() == 0 ? 0 : guard.kvs(0).mod_revision();
  bool const barred = revision != keeper_.guard_revision();
  keeper_.guard_seen(revision);
  if (!ops_.contains(id)) return;
  if (barred) return send_join(id, joining);  // the guard was put anew meanwhile: nothing was done
  if (entry.kvs_size() != 0) {                // somebody wrote under our name: leave it alone
    joining->slot = line(joining->request.line).slots.take();
    joining->name = Layout::entry_name(keeper_.lease(), joining->slot, joining->request.kind);
    return send_join(id, joining);
  }
  finish(id);
  end_join(joining);
  joining->reply(make_error_code(errc::busy));
}

/// The answer to a join was lost. The guard has been put anew since, so that no copy takes effect from here on: either
/// the entry is there, or it never will be.
void EtcdBackend::settle(OpId id, std::shared_ptr<Joining> const& joining) {
  pb::RangeRequest request;
  request.set_key(layout_.entry_key(joining->request.line, joining->name));
  members_.wire()->range(
      std::move(request), [this, id, joining](Failure const& why, pb::RangeResponse const& response) {
        if (!ops_.contains(id) || trouble(id, why)) return;
        ops_.at(id).doubted = false;
        if (response.kvs_size() == 0) return send_join(id, joining);
        joined(id, joining, static_cast<std::uint64_t>(response.kvs(0).create_revision()), std::nullopt);
      });
}

/// `listing`: who is ahead, if that is known already.
void EtcdBackend::joined(OpId id, std::shared_ptr<Joining> const& joining, std::uint64_t number,
                         std::optional<Listing> listing) {
  Join const& request = joining->request;
  EntryRef const self{joining->name, number};
  Line& at = line(request.line);
  at.own.emplace(self, joining->slot);
  std::optional<Ahead> ahead;
  if (listing) {
    at.view.learn(*listing);
    ahead = ahead_by(request.rule, *listing);
  }
  finish(id);
  if (ahead) {
    joining->reply(Joined{self, *ahead});
    if (auto const still = lines_.find(request.line); still != lines_.end()) still->second.view.arrived();
    return;
  }
  at.unplaced.emplace_back(joining, self);
  place(request.line);
}

void EtcdBackend::place(std::string const& name) {
  auto const still = lines_.find(name);
  if (still == lines_.end() || still->second.placing || still->second.unplaced.empty()) return;
  still->second.placing = true;
  auto const joins = std::exchange(still->second.unplaced, {});
  pb::RangeRequest request = range(layout_.line(name));
  request.set_keys_only(true);
  ask(
      std::move(request),
      [this, name, joins](error_code why) {
        for (auto const& [joining, self] : joins) {
          if (why != errc::lost) {  // a lost session took the line with it
            line(name).placing = false;
            line(name).view.arrived();
            leave(name, self, false, [](Result<void> const&) {});
          }
          joining->reply(why);
        }
      },
      [this, name, joins](OpId id, pb::RangeResponse const& response) {
        finish(id);
        placed(name, joins, response);
      });
}

void EtcdBackend::placed(std::string const& name, Unplaced const& joins, pb::RangeResponse const& response) {
  line(name).placing = false;
  Listing all = to_listing(layout_, response, static_cast<std::uint64_t>(response.header().revision()) + 1);
  std::sort(all.entries.begin(), all.entries.end(), [](auto& a, auto& b) { return a.number > b.number; });
  line(name).view.learn(all);
  for (auto const& [joining, self] : joins) {
    auto const mine = std::lower_bound(all.entries.begin(), all.entries.end(), self,
                                       [](auto& a, auto& b) { return a.number > b.number; });
    if (mine != all.entries.end() && *mine == self) {
      auto const limit = static_cast<std::ptrdiff_t>(listing_limit(joining->request.rule));
      bool const more = limit != 0 && all.entries.end() - mine > limit;
      Listing ahead{{mine + 1, more ? mine + limit : all.entries.end()}, 0, self.number};
      if (more) ahead.from = ahead.entries.back().number;
      joining->reply(Joined{self, ahead_by(joining->request.rule, ahead).value()});
    } else {  // somebody removed it: once more
      left(name, self, static_cast<std::int64_t>(self.number) + 1);
      join(std::move(joining->request), std::move(joining->reply));
    }
    if (auto const still = lines_.find(name); still != lines_.end()) still->second.view.arrived();
  }
  place(name);
}

/// The session is lost, and these lines with it.
void EtcdBackend::fail_unplaced(std::map<std::string, Line> const& lines) {
  for (auto const& [name, at] : lines)
    for (auto const& [joining, self] : at.unplaced) joining->reply(make_error_code(errc::lost));
}

void EtcdBackend::end_join(std::shared_ptr<Joining> const& joining) {
  Line& at = line(joining->request.line);
  at.slots.give_back(joining->slot);
  at.view.arrived();
  tidy(joining->request.line);
}

}  // namespace holdfast::detail::etcd
