#include "common/api.hpp"
#include "common/error.hpp"

namespace holdfast {

using namespace detail;

namespace {

/// The options as the claim understands them, or what is wrong with them.
Result<Request> request_for(LockState const& lock, AcquireOptions const& options) {
  if (!lock.line) return lock.line.error();
  if (options.timeout && *options.timeout < Duration::zero())
    return fail(errc::invalid_argument, "the timeout is negative");
  if (options.label && options.label->size() > 256)
    return fail(errc::invalid_argument, "the label is over 256 bytes long");
  if (options.stop.stop_requested()) return make_error_code(errc::cancelled);
  Core& core = lock.handle->core();
  Request request{*lock.line, lock.kind, lock.rule, options.label.value_or(core.config().label)};
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
  using Completion = boost::asio::any_completion_handler<void(error_code, Hold)>;
  struct Cancel {
    std::weak_ptr<AcquireOp> op;
    void operator()() const {
      if (auto const self = op.lock()) cancel(*self->core, self->claim);
    }
    void operator()(boost::asio::cancellation_type type) const {
      if (type != boost::asio::cancellation_type::none) (*this)();
    }
  };

  AcquireOp(std::shared_ptr<Handle> const& owner, Completion completion)
      : core(owner->shared_core()), handle(owner), done(std::move(completion)) {}

  /// Outside the monitor. Whatever becomes of the completion, the hold in it is delivered or released.
  void complete(error_code ec) {
    listen(nullptr);
    Hold hold;
    if (!ec) {
      // A waiting acquire does not keep its client alive; if that went meanwhile, the claim went with it.
      if (auto const owner = handle.lock())
        hold = Access::hold(owner, claim);
      else
        ec = make_error_code(errc::closed);
    }
    std::move(done)(ec, std::move(hold));
  }

  /// Hears of a stop through this, until it is told nullptr; after that through nothing any more.
  void listen(std::unique_ptr<std::stop_callback<Cancel>> callback) {
    std::lock_guard const guard(mutex);
    over = over || !callback;
    if (!over || !callback) std::swap(stop, callback);
  }

  std::shared_ptr<Core> const core;
  std::weak_ptr<Handle> const handle;
  Completion done;
  std::shared_ptr<Claim> claim;
  std::mutex mutex;
  bool over = false;
  std::unique_ptr<std::stop_callback<Cancel>> stop;
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

boost::asio::any_io_executor Lock::notifier() const { return state_->handle->core().runtime().notifier(); }

void Lock::start_acquire(AcquireOptions options, boost::asio::cancellation_slot slot,
                         boost::asio::any_completion_handler<void(error_code, Hold)> done) const {
  Core& core = state_->handle->core();
  if (auto const no = core.refuse(false)) return std::move(done)(no, Hold());
  auto request = request_for(*state_, options);
  if (!request) return std::move(done)(request.error(), Hold());

  auto const op = std::make_shared<AcquireOp>(state_->handle, std::move(done));
  op->claim = std::make_shared<Claim>(core, std::move(*request),
                                      [&core, op](error_code ec) { core.hand_out([op, ec] { op->complete(ec); }); });
  if (slot.is_connected()) slot.assign(AcquireOp::Cancel{op});
  if (options.stop.stop_possible())
    op->listen(std::make_unique<std::stop_callback<AcquireOp::Cancel>>(options.stop, AcquireOp::Cancel{op}));
  core.start(op->claim);
}

}  // namespace holdfast
