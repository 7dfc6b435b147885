#include <boost/asio/associated_cancellation_slot.hpp>

#include "common/api.hpp"
#include "common/deliver.hpp"
#include "common/error.hpp"

namespace holdfast {

using namespace detail;

namespace {

/// The options as the claim understands them, or what is wrong with them.
Result<Request> request_for(LockState const& lock, AcquireOptions const& options) {
  if (!lock.line) return lock.line.error();
  if (options.timeout && *options.timeout < Duration::zero())
    return fail(errc::invalid_argument, "the timeout is negative");
  if (options.label.size() > 256) return fail(errc::invalid_argument, "the label is over 256 bytes long");
  if (options.stop.stop_requested()) return make_error_code(errc::cancelled);
  Core& core = lock.handle->core();
  Request request{*lock.line, lock.kind, lock.rule, options.label.empty() ? core.config().label : options.label};
  request.only_if_free = options.timeout == Duration::zero();
  if (request.only_if_free)
    request.deadline = core.now() + core.config().request_timeout;
  else if (options.timeout)
    request.deadline = later(core.now(), *options.timeout);
  return request;
}

void cancel(Core& core, std::shared_ptr<Claim> const& claim) {
  if (!core.forked()) core.enter([&] { claim->give_up(make_error_code(errc::cancelled)); });
}

/// An acquire whose outcome goes to an Asio handler.
struct AcquireOp : std::enable_shared_from_this<AcquireOp> {
  using Handler = boost::asio::any_completion_handler<void(error_code, Hold)>;
  struct Cancel {
    std::weak_ptr<AcquireOp> op;
    void operator()() const {
      if (auto const self = op.lock()) cancel(*self->core, self->claim);
    }
    void operator()(boost::asio::cancellation_type type) const {
      if (type != boost::asio::cancellation_type::none) (*this)();
    }
  };

  AcquireOp(std::shared_ptr<Handle> const& owner, Handler h)
      : core(owner->shared_core()),
        handle(owner),
        handler(std::move(h)),
        executor(completion_executor(handler, core->runtime().notifier())),
        slot(boost::asio::get_associated_cancellation_slot(handler)) {}

  /// Outside the monitor. Whatever becomes of the posted function, the hold in it is delivered or released.
  void complete(error_code ec) {
    Hold hold;
    if (!ec) {
      // A waiting acquire does not keep its client alive; if that went meanwhile, the claim went with it.
      if (auto const owner = handle.lock())
        hold = Access::hold(owner, claim);
      else
        ec = make_error_code(errc::closed);
    }
    deliver(executor, [self = shared_from_this(), ec, hold = std::move(hold)]() mutable {
      self->stop.reset();
      if (self->slot.is_connected()) self->slot.clear();
      std::move(self->handler)(ec, std::move(hold));
    });
  }

  std::shared_ptr<Core> const core;
  std::weak_ptr<Handle> const handle;
  Handler handler;
  boost::asio::any_completion_executor const executor;
  boost::asio::cancellation_slot slot;
  std::shared_ptr<Claim> claim;
  std::optional<std::stop_callback<Cancel>> stop;
};

}  // namespace

Lock::Lock(std::shared_ptr<LockState const> state) : state_(std::move(state)) {}

std::string const& Lock::name() const noexcept { return state_->name; }

Result<Hold> Lock::acquire() { return acquire(AcquireOptions{}); }

Result<Hold> Lock::acquire_for(std::chrono::nanoseconds timeout) { return acquire(AcquireOptions{timeout, {}, {}}); }

Result<Hold> Lock::try_acquire() { return acquire_for(std::chrono::nanoseconds::zero()); }

Result<Hold> Lock::acquire(AcquireOptions options) {
  Core& core = state_->handle->core();
  if (auto const no = core.refuse(true)) return no;
  auto request = request_for(*state_, options);
  if (!request) return request.error();

  Answer<error_code> outcome;
  auto const claim =
      std::make_shared<Claim>(core, std::move(*request), [&outcome](error_code ec) { outcome.give(ec); });
  core.start(claim);
  std::stop_callback const on_stop(options.stop, [&] { cancel(core, claim); });
  if (auto const ec = outcome.wait()) return ec;
  return Access::hold(state_->handle, claim);
}

void Lock::start_acquire(AcquireOptions options,
                         boost::asio::any_completion_handler<void(error_code, Hold)> handler) const {
  auto const op = std::make_shared<AcquireOp>(state_->handle, std::move(handler));
  Core& core = *op->core;
  if (auto const no = core.refuse(false)) return op->complete(no);
  auto request = request_for(*state_, options);
  if (!request) return op->complete(request.error());

  op->claim = std::make_shared<Claim>(core, std::move(*request), [&core, op](error_code ec) {
    core.hand_out([op, ec] { op->complete(ec); });
  });
  if (op->slot.is_connected()) op->slot.assign(AcquireOp::Cancel{op});
  if (options.stop.stop_possible()) op->stop.emplace(options.stop, AcquireOp::Cancel{op});
  core.start(op->claim);
}

}  // namespace holdfast
