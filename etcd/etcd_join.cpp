#include <algorithm>

#include "common/error.hpp"
#include "etcd/etcd_backend.hpp"
#include "etcd/listing.hpp"

namespace holdfast::detail::etcd {

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
  op.is_join = true;
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
    return joined(id, joining, number, to_listing(layout_, response.responses(0).response_range(), number));
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
  at.view.arrived();
  look_by_reading(request.line, self, request.rule, false, 0,
                  [this, joining, self](Result<std::optional<Ahead>> found) {
                    if (!found) {
                      if (found.error() != errc::lost)
                        leave(joining->request.line, self, false, [](Result<void> const&) {});
                      return joining->reply(found.error());
                    }
                    if (*found) return joining->reply(Joined{self, **found});
                    left(joining->request.line, self,
                         static_cast<std::int64_t>(self.number) + 1);  // somebody removed it: once more
                    join(std::move(joining->request), std::move(joining->reply));
                  });
}

void EtcdBackend::end_join(std::shared_ptr<Joining> const& joining) {
  Line& at = line(joining->request.line);
  at.slots.give_back(joining->slot);
  at.view.arrived();
  tidy(joining->request.line);
}

}  // namespace holdfast::detail::etcd
