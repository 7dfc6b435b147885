#include "common/error.hpp"
#include "etcd/etcd_backend.hpp"
#include "etcd/listing.hpp"

// A commit is one Txn: the entry, the guard and the user's conditions are compared, and along with what the user writes
// a receipt is put, a key on our lease. Should the answer be lost, the guard is put anew, so that no copy takes effect
// from then on; then the receipt tells.

namespace holdfast::detail::etcd {

struct EtcdBackend::Committing {
  Guarded request;
  Reply<Fate> reply;
  std::uint32_t slot = 0;
  std::string number;  ///< what the receipt says
};

void EtcdBackend::commit(Guarded request, Reply<Fate> reply) {
  auto const committing = std::make_shared<Committing>(Committing{std::move(request), std::move(reply), 0, {}});
  if (keeper_.lease() != 0) {
    committing->slot = receipts_.take();
    committing->number = std::to_string(last_op_ + 1);
  }
  Op op;
  op.compares_guard = true;
  op.fail = [this, committing](error_code why) {
    if (why != errc::lost) {
      receipts_.give_back(committing->slot);
      return committing->reply(why);
    }
    committing->reply(committing->request.ticket->sent ? make_error_code(errc::unknown_outcome) : why);
  };
  op.send = [this, committing](OpId id) {
    ops_.at(id).doubted ? settle_commit(id, committing) : send_commit(id, committing);
  };
  add(std::move(op));
}

void EtcdBackend::send_commit(OpId id, std::shared_ptr<Committing> const& committing) {
  Guarded const& request = committing->request;
  if (!request.ticket->wanted) return committed(id, committing, Fate::not_done);
  request.ticket->sent = true;
  std::string const entry = layout_.entry_key(request.line, request.self.key);

  pb::TxnRequest txn;
  *txn.add_compare() = if_modified_at(keeper_.guard_key(), keeper_.guard_revision());
  *txn.add_compare() = if_created_at(entry, request.self.number);
  txn.add_failure()->mutable_request_range()->set_key(keeper_.guard_key());
  txn.add_failure()->mutable_request_range()->set_key(entry);
  for (auto const& [key, value] : request.what.conditions()) {
    *txn.add_compare() = value ? if_equal(key, *value) : if_absent({key, ""});
    txn.add_failure()->mutable_request_range()->set_key(key);
  }
  for (auto const& [key, value] : request.what.writes()) {
    auto& write = *txn.add_success();
    if (value) {
      write.mutable_request_put()->set_key(key);
      write.mutable_request_put()->set_value(*value);
    } else {
      write.mutable_request_delete_range()->set_key(key);
    }
  }
  auto& receipt = *txn.add_success()->mutable_request_put();
  receipt.set_key(layout_.receipt(keeper_.lease(), committing->slot));
  receipt.set_value(committing->number);
  receipt.set_lease(keeper_.lease());

  members_.wire()->txn(std::move(txn), [this, id, committing](Failure const& why, pb::TxnResponse const& response) {
    if (!ops_.contains(id) || trouble(id, why)) return;
    keeper_.heard(response.header());
    response.succeeded() ? committed(id, committing, Fate::done) : commit_refused(id, committing, response);
  });
}

/// Nothing was done, and nothing is on its way any more: why?
void EtcdBackend::commit_refused(OpId id, std::shared_ptr<Committing> const& committing,
                                 pb::TxnResponse const& response) {
  committing->request.ticket->sent = false;
  auto const found = [&response](int at) -> pb::KeyValue const* {
    auto const& range = response.responses(at).response_range();
    return range.kvs_size() == 0 ? nullptr : &range.kvs(0);
  };
  auto const revision = found(0) != nullptr ? found(0)->mod_revision() : 0;
  bool const barred = revision != keeper_.guard_revision();
  keeper_.guard_seen(revision);
  if (!ops_.contains(id)) return;
  if (barred) return send_commit(id, committing);  // the guard was put anew meanwhile
  Guarded const& request = committing->request;
  if (found(1) == nullptr || static_cast<std::uint64_t>(found(1)->create_revision()) != request.self.number)
    return committed(id, committing, make_error_code(errc::lost));
  int at = 2;
  for (auto const& [key, wanted] : request.what.conditions()) {
    auto const* const there = found(at++);
    bool const met = there != nullptr ? wanted == there->value() : !wanted;
    if (!met) return committed(id, committing, fail(errc::conflict, "the key " + key));
  }
  committed(id, committing, fail(errc::unavailable, "etcd refused a commit for no reason that it shows"));
}

void EtcdBackend::settle_commit(OpId id, std::shared_ptr<Committing> const& committing) {
  members_.wire()->range(range({layout_.receipt(keeper_.lease(), committing->slot), ""}),
                         [this, id, committing](Failure const& why, pb::RangeResponse const& response) {
                           if (!ops_.contains(id) || trouble(id, why)) return;
                           bool const done = response.kvs_size() != 0 && response.kvs(0).value() == committing->number;
                           committed(id, committing, done ? Fate::done : Fate::not_done);
                         });
}

void EtcdBackend::committed(OpId id, std::shared_ptr<Committing> const& committing, Result<Fate> fate) {
  finish(id);
  receipts_.give_back(committing->slot);
  committing->reply(fate);
}

}  // namespace holdfast::detail::etcd
