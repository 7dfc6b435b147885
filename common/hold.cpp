#include <algorithm>
#include <boost/asio/system_executor.hpp>

#include "common/api.hpp"
#include "common/error.hpp"
#include "common/names.hpp"

namespace holdfast {

using namespace detail;

namespace {

// Where there is no lease: long enough for any purpose, short enough that now() + valid_for() fits every clock.
constexpr std::chrono::nanoseconds kCapped = std::chrono::hours(24 * 3650);

std::stop_token stopped() {
  std::stop_source source;
  source.request_stop();
  return source.get_token();
}

constexpr std::size_t kMostParts = 100;        // etcd takes 128 in one transaction
constexpr std::size_t kMostBytes = 1'000'000;  // ZooKeeper takes 1,048,575 in one request

/// The same limits for every backend. `root`: where the locks are.
error_code wrong_with(Commit const& what, std::string const& root) {
  std::size_t parts = 0, bytes = 0;
  for (auto const* values : {&what.writes(), &what.conditions()})
    for (auto const& [key, value] : *values) {
      if (key.empty()) return fail(errc::invalid_argument, "a commit with an empty key");
      if (key == root || key.starts_with(root + "/"))
        return fail(errc::invalid_argument, "a key inside the place where the locks are: " + key);
      ++parts;
      bytes += 2 * key.size() + (value ? value->size() : 0);  // twice: so ZooKeeper is asked whether one is absent
    }
  if (parts > kMostParts) return fail(errc::invalid_argument, "a commit of more than 100 writes and conditions");
  if (bytes > kMostBytes) return fail(errc::invalid_argument, "a commit of more than a million bytes");
  return {};
}

}  // namespace

detail::HoldState::~HoldState() {
  if (core().forked()) return;
  core().enter([&] { claim_->release(nullptr); });
}

Hold::Hold() noexcept = default;
Hold::Hold(std::shared_ptr<HoldState> state) noexcept : state_(std::move(state)) {}
Hold::Hold(Hold&&) noexcept = default;
Hold& Hold::operator=(Hold&&) noexcept = default;
Hold::~Hold() = default;

Fence Hold::fence() const noexcept {
  return state_ ? Fence(state_->core().config().fence_epoch, state_->claim().number()) : Fence();
}

bool Hold::valid() const noexcept { return state_ && state_->valid_at(state_->core().now()); }

std::chrono::nanoseconds Hold::valid_for() const noexcept {
  if (!state_) return {};
  TimePoint const now = state_->core().now();
  if (!state_->valid_at(now)) return {};
  return std::min<std::chrono::nanoseconds>(state_->claim().until() - now, kCapped);
}

std::stop_token Hold::lost() const { return lost(std::chrono::nanoseconds::zero()); }

std::stop_token Hold::lost(std::chrono::nanoseconds margin) const {
  if (!state_ || state_->core().forked()) return stopped();
  std::stop_token token;
  state_->core().enter([&] { token = state_->claim().lost_token(margin); });
  return token;
}

Sequencer Hold::sequencer() const {
  if (!state_) return {};
  Claim const& claim = state_->claim();
  return Sequencer(claim.place(), percent_decode(claim.line()).value(), claim.entry().key, fence());
}

Result<void> detail::HoldState::commit(Commit const& what) const {
  if (auto const no = core().refuse(true)) return no;
  Answer<error_code> outcome;
  core().enter([&] { claim_->commit(what, [&outcome](error_code ec) { outcome.give(ec); }); });
  if (auto const ec = outcome.wait()) return ec;
  return {};
}

Result<void> Hold::commit(Commit const& what) {
  if (!state_) return fail(errc::invalid_argument, "commit of an empty hold");
  if (auto const no = state_->core().refuse(true)) return no;
  if (auto const wrong = wrong_with(what, state_->core().config().root)) return wrong;
  return state_->commit(what);
}

void Hold::start_commit(std::shared_ptr<HoldState> state, Commit what,
                        boost::asio::any_completion_handler<void(error_code)> done) {
  if (!state) return std::move(done)(fail(errc::invalid_argument, "commit of an empty hold"));
  Core& core = state->core();
  if (auto const no = core.refuse(false)) return std::move(done)(no);
  if (auto const wrong = wrong_with(what, core.config().root)) return std::move(done)(wrong);
  auto const shared = std::make_shared<decltype(done)>(std::move(done));
  core.enter([&] {
    state->claim().commit(std::move(what),
                          [&core, shared](error_code ec) { core.hand_out([shared, ec] { std::move (*shared)(ec); }); });
  });
}

Result<void> Hold::release() {
  auto const state = std::exchange(state_, nullptr);
  if (!state) return fail(errc::invalid_argument, "release of an empty hold");
  Core& core = state->core();
  if (auto const no = core.refuse(true)) return no;

  Answer<error_code> outcome;
  core.enter([&] { state->claim().release([&outcome](error_code ec) { outcome.give(ec); }); });
  if (auto const ec = outcome.wait()) return ec;
  return {};
}

boost::asio::any_io_executor Hold::notifier(HoldState const* state) {
  // An empty hold has no client, so no notification thread either: only the system's pool is left that is not the
  // initiating call.
  if (!state) return boost::asio::system_executor();
  return state->core().runtime().notifier();
}

void Hold::start_release(std::shared_ptr<HoldState> state, boost::asio::any_completion_handler<void(error_code)> done) {
  if (!state) return std::move(done)(fail(errc::invalid_argument, "release of an empty hold"));
  Core& core = state->core();
  if (auto const no = core.refuse(false)) return std::move(done)(no);
  auto const shared = std::make_shared<decltype(done)>(std::move(done));
  // The hold's share in its client lasts until the release is confirmed: dropping it here could close the client.
  core.enter([&] {
    state->claim().release(
        [&core, shared, state](error_code ec) { core.hand_out([shared, state, ec] { std::move (*shared)(ec); }); });
  });
}

}  // namespace holdfast
