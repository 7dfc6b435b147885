#include "common/error.hpp"
#include "local/memory_backend.hpp"

// Commits, with what a network does to them.

namespace holdfast::detail {

struct MemoryBackend::Committing {
  Guarded request;
  Reply<Fate> reply;
  MemoryService::Receipt receipt;
};

void MemoryBackend::commit(Guarded request, Reply<Fate> reply) {
  auto const committing = std::make_shared<Committing>(Committing{std::move(request), std::move(reply), {}});
  if (session_ != 0) committing->receipt = {receipts_.take(), last_op_ + 1};
  Op op;
  op.lost = [committing] {
    committing->reply(make_error_code(committing->request.ticket->sent ? errc::unknown_outcome : errc::lost));
  };
  op.send = [this, committing](OpId id, bool again) {
    again && committing->request.ticket->sent ? settle_commit(id, committing) : send_commit(id, committing);
  };
  add(std::move(op));
}

void MemoryBackend::send_commit(OpId id, std::shared_ptr<Committing> const& committing) {
  if (!committing->request.ticket->wanted) return committed(id, committing, Fate::not_done);
  committing->request.ticket->sent = true;
  wire_->send([this, id, committing, session = session_, guard = guard_](MemoryService& service) {
    auto const result = service.commit(session, guard, committing->receipt, committing->request);
    return [this, id, committing, session, result] {
      using What = MemoryService::Committed::What;
      bool const done = result && result->what == What::done;
      if (!done) committing->request.ticket->sent = false;  // for certain
      if (!result) return session_lost(session);
      if (!ops_.contains(id)) return;
      switch (result->what) {
        case What::done: return committed(id, committing, Fate::done);
        case What::barred: return send_commit(id, committing);
        case What::no_entry: return committed(id, committing, make_error_code(errc::lost));
        case What::conflict: return committed(id, committing, fail(errc::conflict, "the key " + result->key));
      }
    };
  });
}

void MemoryBackend::settle_commit(OpId id, std::shared_ptr<Committing> const& committing) {
  wire_->send([this, id, committing, session = session_](MemoryService& service) {
    auto const result = service.settle_commit(session, committing->receipt);
    return [this, id, committing, session, result] {
      if (!result) return session_lost(session);
      if (session != session_) return;
      guard_ = std::max(guard_, result->guard);
      committed(id, committing, result->done ? Fate::done : Fate::not_done);
    };
  });
}

void MemoryBackend::committed(OpId id, std::shared_ptr<Committing> const& committing, Result<Fate> fate) {
  if (!finish(id)) return;
  receipts_.give_back(committing->receipt.slot);
  committing->reply(fate);
}

}  // namespace holdfast::detail
