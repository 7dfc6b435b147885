#include "common/error.hpp"
#include "etcd/etcd_backend.hpp"
#include "etcd/listing.hpp"

namespace holdfast::detail::etcd {

/// For what can be asked twice without harm.
void EtcdBackend::ask(pb::RangeRequest request, std::function<void(error_code)> fail,
                      std::function<void(OpId, pb::RangeResponse const&)> answered) {
  Op op;
  op.fail = std::move(fail);
  op.send = [this, request = std::move(request), answered = std::move(answered)](OpId id) {
    members_.wire()->range(request, [this, id, answered](Failure const& why, pb::RangeResponse const& response) {
      if (ops_.contains(id) && !trouble(id, why)) answered(id, response);
    });
  };
  add(std::move(op));
}

void EtcdBackend::look(std::string const& name, EntryRef const& self, Rule rule, Reply<std::optional<Ahead>> reply) {
  if (auto const place = lines_.find(name); place != lines_.end()) {
    View const& view = place->second.view;
    if (view.live() && view.knows_all_before(self.number)) {
      auto const ahead = ahead_by(rule, view.before(self.number));
      return host_.defer([reply = std::move(reply), ahead] { reply(ahead); });
    }
  }
  look_by_reading(name, self, rule, true, listing_limit(rule) + 1, std::move(reply));
}

/// What is seen absent stays absent, so the member's own state is enough to learn that nobody is ahead, if it is not
/// older than our entry and has it.
void EtcdBackend::look_by_reading(std::string const& name, EntryRef const& self, Rule rule, bool stale_is_fine,
                                  std::int64_t limit, Reply<std::optional<Ahead>> reply) {
  pb::RangeRequest request = nearest_ahead(layout_.line(name), listing_limit(rule) == 0 ? 0 : limit);
  request.set_max_create_revision(static_cast<std::int64_t>(self.number));
  request.set_serializable(stale_is_fine);
  line(name).view.expect();
  ask(std::move(request), failing(reply),
      [this, name, self, rule, stale_is_fine, reply](OpId id, pb::RangeResponse const& response) {
        finish(id);
        auto const number = static_cast<std::uint64_t>(response.header().revision());
        bool const own = response.kvs_size() != 0 && to_entry(layout_, response.kvs(0)) == self;
        std::optional<Ahead> ahead;
        if (own) {
          Listing listing = to_listing(layout_, response, self.number);
          line(name).view.learn(listing);
          ahead = ahead_by(rule, listing);
        }
        if ((own && !ahead) || (!own && stale_is_fine && number < self.number)) {
          line(name).view.arrived();  // this member is behind, or the listing too short
          return look_by_reading(name, self, rule, false, 0, reply);
        }
        reply(ahead);
        if (auto const still = lines_.find(name); still != lines_.end()) still->second.view.arrived();
      });
}

void EtcdBackend::leave(std::string const& name, EntryRef const& self, bool, Reply<void> reply) {
  line(name).view.leaving(self);
  pb::TxnRequest txn;
  std::string const key = layout_.entry_key(name, self.key);
  *txn.add_compare() = if_created_at(key, self.number);
  txn.add_success()->mutable_request_delete_range()->set_key(key);
  Op op;
  op.fail = failing(reply);
  op.send = [this, name, self, reply, txn = std::move(txn)](OpId id) {
    members_.wire()->txn(txn, [this, id, name, self, reply](Failure const& why, pb::TxnResponse const& response) {
      if (!ops_.contains(id) || trouble(id, why)) return;
      keeper_.heard(response.header());
      finish(id);
      left(name, self, response.header().revision());
      reply({});
    });
  };
  add(std::move(op));
}

void EtcdBackend::left(std::string const& name, EntryRef const& self, std::int64_t revision) {
  Line& at = line(name);
  at.view.deleted(self.key, static_cast<std::uint64_t>(revision));
  at.view.left(self);
  if (auto const mine = at.own.find(self); mine != at.own.end()) {
    at.slots.give_back(mine->second);
    at.own.erase(mine);
  }
  tidy(name);
}

void EtcdBackend::read(std::string const& key, Reply<std::optional<std::string>> reply) {
  ask(range({key, ""}), failing(reply), [this, reply](OpId id, pb::RangeResponse const& response) {
    finish(id);
    reply(response.kvs_size() == 0 ? std::nullopt : std::optional(response.kvs(0).value()));
  });
}

void EtcdBackend::list(std::string const& name, Reply<std::vector<EntryInfo>> reply) {
  pb::RangeRequest request = range(layout_.line(name));
  request.set_sort_order(pb::RangeRequest::ASCEND);
  request.set_sort_target(pb::RangeRequest::CREATE);
  ask(std::move(request), failing(reply), [this, reply](OpId id, pb::RangeResponse const& response) {
    std::vector<EntryInfo> all;
    for (auto const& kv : response.kvs()) {
      EntryRef ref = to_entry(layout_, kv);
      Kind const kind = Layout::kind_of(ref.key);
      all.push_back({std::move(ref), kind, kv.value(), std::nullopt});
    }
    finish(id);
    reply(std::move(all));
  });
}

void EtcdBackend::names(Reply<std::vector<std::string>> reply) {
  pb::RangeRequest request = range(layout_.everything());
  request.set_keys_only(true);
  ask(std::move(request), failing(reply), [this, reply](OpId id, pb::RangeResponse const& response) {
    std::set<std::string> all;
    for (auto const& kv : response.kvs())
      if (auto const name = layout_.line_of(kv.key()); !name.empty()) all.emplace(name);
    finish(id);
    reply(std::vector(all.begin(), all.end()));
  });
}

void EtcdBackend::check(std::string const& name, EntryRef const& entry, Reply<bool> reply) {
  pb::RangeRequest request;
  request.set_key(layout_.entry_key(name, entry.key));
  ask(std::move(request), failing(reply), [this, entry, reply](OpId id, pb::RangeResponse const& response) {
    finish(id);
    reply(response.kvs_size() != 0 && static_cast<std::uint64_t>(response.kvs(0).create_revision()) == entry.number);
  });
}

// ---- entries that somebody removed

/// One question for all our entries, whatever their number. A leader that does not know yet that it is deposed may
/// answer it, so that what seems to be missing is looked up.
void EtcdBackend::beaten() {
  std::vector<std::pair<std::string, EntryRef>> asked;
  std::vector<std::string> seen;
  for (auto& [name, at] : lines_) {
    for (auto const& [entry, slot] : at.own) asked.emplace_back(name, entry);
    seen.push_back(name);
  }
  for (auto const& name : seen) count_idle(name);
  if (asked.empty()) return;
  pb::LeaseTimeToLiveRequest request;
  request.set_id(keeper_.lease());
  request.set_keys(true);
  members_.wire()->time_to_live(std::move(request), [this, asked = std::move(asked), lease = keeper_.lease()](
                                                        Failure const& why, pb::LeaseTimeToLiveResponse const& reply) {
    if (why || lease != keeper_.lease()) return;
    find_removed({reply.keys().begin(), reply.keys().end()}, asked);
  });
}

void EtcdBackend::find_removed(std::set<std::string> const& keys,
                               std::vector<std::pair<std::string, EntryRef>> const& asked) {
  for (auto const& [name, entry] : asked) {
    if (keys.contains(layout_.entry_key(name, entry.key))) continue;
    auto const place = lines_.find(name);
    if (place == lines_.end() || !place->second.own.contains(entry)) continue;
    check(name, entry, [this, name = name, entry = entry](Result<bool> there) {
      if (!there || *there) return;
      auto const still = lines_.find(name);
      if (still != lines_.end() && still->second.own.contains(entry)) {
        left(name, entry, static_cast<std::int64_t>(entry.number) + 1);
        host_.removed(name, entry);
      }
    });
  }
}

}  // namespace holdfast::detail::etcd
