#include "etcd/etcd_backend.hpp"

#include "common/error.hpp"
#include "common/fork.hpp"
#include "etcd/make.hpp"

namespace holdfast::detail {
namespace etcd {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kMostUnderWay = 512;  ///< an etcd that is more than 5,000 requests behind refuses new ones
constexpr Duration kOverloadPause = 50ms;

}  // namespace

EtcdBackend::EtcdBackend(Config const& config, Host& host)
    : host_(host),
      layout_(config.root),
      members_(config, host,
               {[this](Wire&) { connected(); },
                [this] { disconnected(); },
                [this](error_code why) { host_.failed(why); },
                {[this](pb::WatchResponse const& response) { watches_.heard(response); },
                 [this](pb::LeaseKeepAliveResponse const& response) { keeper_.kept(response); },
                 {}}}),
      keeper_(config, host, layout_, members_,
              {[this](SessionInfo info) { opened(std::move(info)); }, [this] { alive(); }, [this] { lost(); },
               [this] { beaten(); }, [this](error_code why) { host_.failed(why); }}),
      watches_(host, members_) {}

// ---- the session

void EtcdBackend::connected() {
  if (stopping_) return revoke();
  bool doubts = false;
  for (auto const& [id, op] : ops_) doubts = doubts || (op.compares_guard && op.doubted);
  keeper_.connected(doubts);
}

void EtcdBackend::disconnected() {
  bool const was_usable = std::exchange(usable_, false);
  keeper_.disconnected();
  watches_.disconnected();
  unsent_.clear();
  under_way_ = 0;
  for (auto& [id, op] : ops_) {
    op.doubted = op.doubted || op.sent;
    op.sent = false;
    unsent_.push_back(id);
  }
  if (was_usable && !stopping_) host_.suspect();
}

void EtcdBackend::opened(SessionInfo info) {
  usable_ = true;
  host_.up(std::move(info));
}

void EtcdBackend::alive() {
  usable_ = true;
  host_.resumed();
  watches_.connected();
  pump();
}

void EtcdBackend::lost() {
  usable_ = false;
  watches_.clear();
  auto const lines = std::exchange(lines_, {});
  places_.clear();
  receipts_ = {};
  unsent_.clear();
  under_way_ = 0;
  auto const ops = std::exchange(ops_, {});
  host_.lost();
  for (auto const& [id, op] : ops) op.fail(make_error_code(errc::lost));
  fail_unplaced(lines);
}

void EtcdBackend::stop(std::function<void()> done) {
  stopping_ = true;
  stopped_ = std::move(done);
  host_.cancel(std::exchange(watchdog_, 0));
  keeper_.stop();
  watches_.clear();
  ops_.clear();
  if (keeper_.lease() == 0) {
    members_.stop();
    return host_.defer(std::move(stopped_));
  }
  if (members_.wire() != nullptr) revoke();
}

/// The end of the lease is the end of every entry on it.
void EtcdBackend::revoke() {
  pb::LeaseRevokeRequest request;
  request.set_id(keeper_.lease());
  members_.wire()->revoke(std::move(request), [this](Failure const& why, pb::LeaseRevokeResponse const&) {
    if (why && why.kind() != Failure::Kind::lease && why.kind() != Failure::Kind::final) return members_.fail(why);
    members_.stop();
    if (stopped_) std::exchange(stopped_, nullptr)();
  });
}

// ---- what is under way

void EtcdBackend::add(Op op) {
  if (stopping_ || keeper_.lease() == 0)
    return host_.defer([fail = std::move(op.fail)] { fail(make_error_code(errc::lost)); });
  OpId const id = ++last_op_;
  ops_.emplace(id, std::move(op));
  unsent_.push_back(id);
  pump();
}

void EtcdBackend::pump() {
  while (usable_ && under_way_ < kMostUnderWay && !unsent_.empty()) {
    OpId const id = unsent_.front();
    unsent_.pop_front();
    auto const place = ops_.find(id);
    if (place == ops_.end() || place->second.sent) continue;
    place->second.sent = true;
    place->second.since = host_.now();
    ++under_way_;
    auto const send = place->second.send;  // the op may be gone by the time this returns
    send(id);
  }
  if (watchdog_ == 0 && under_way_ != 0) watchdog();
}

/// A call has no time limit of its own, since it could be that the cluster is only slow. One that takes long makes us
/// ask whether the member still answers.
void EtcdBackend::watchdog() {
  watchdog_ = host_.at(host_.now() + keeper_.patience(), [this] {
    watchdog_ = 0;
    TimePoint const limit = host_.now() - keeper_.patience();
    for (auto const& [id, op] : ops_)
      if (op.sent && op.since <= limit) {
        keeper_.hurry();
        break;
      }
    if (under_way_ != 0) watchdog();
  });
}

/// Nothing came of it, for certain: it is sent again after a pause.
void EtcdBackend::again(OpId id) {
  auto const place = ops_.find(id);
  if (place == ops_.end()) return;
  place->second.sent = false;
  --under_way_;
  host_.at(host_.now() + kOverloadPause, [this, id] {
    auto const still = ops_.find(id);
    if (still == ops_.end() || still->second.sent) return;
    unsent_.push_back(id);
    pump();
  });
}

/// False if the op was answered before, or died with its session.
bool EtcdBackend::finish(OpId id) {
  auto const place = ops_.find(id);
  if (place == ops_.end()) return false;
  if (place->second.sent) --under_way_;
  ops_.erase(place);
  pump();
  return true;
}

/// Whether it was trouble; then it is dealt with.
bool EtcdBackend::trouble(OpId id, Failure const& why) {
  switch (why.kind()) {
    case Failure::Kind::none: return false;
    case Failure::Kind::overload: again(id); return true;
    case Failure::Kind::lease: keeper_.guard_seen(0); return true;
    case Failure::Kind::final: {
      auto const place = ops_.find(id);
      if (place == ops_.end()) return true;
      auto const fail = place->second.fail;
      finish(id);
      fail(why.to_error());
      return true;
    }
    default: members_.fail(why); return true;
  }
}

pb::RangeRequest EtcdBackend::range(KeyRange range) const {
  pb::RangeRequest request;
  request.set_key(std::move(range.key));
  request.set_range_end(std::move(range.end));
  return request;
}

void EtcdBackend::tidy(std::string const& name) {
  auto const place = lines_.find(name);
  if (place != lines_.end() && place->second.unused()) lines_.erase(place);
}

}  // namespace etcd

Result<std::unique_ptr<Backend>> make_etcd_backend(Config const& config, Host& host) {
  static unsigned const grpc_began = fork_generation();
  if (grpc_began != fork_generation())
    return fail(errc::not_supported,
                "etcd: cannot be used in a child forked after the first use: gRPC does not survive it");
  etcd::silence_grpc();
  if (auto const credentials = etcd::make_credentials(config); !credentials) return credentials.error();
  return std::make_unique<etcd::EtcdBackend>(config, host);
}

}  // namespace holdfast::detail
