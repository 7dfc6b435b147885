#include "etcd/keeper.hpp"

#include <grpcpp/support/status_code_enum.h>

#include <algorithm>

#include "common/error.hpp"

namespace holdfast::detail::etcd {

using namespace std::chrono_literals;

namespace {

constexpr auto kDefaultTtl = 15s;
constexpr Duration kDoubtPause = 100ms;  ///< terms change while a leader is elected; then it is asked again

Failure silence() { return {grpc::DEADLINE_EXCEEDED, "no answer to a renewal"}; }

std::string in_ms(std::chrono::milliseconds time) { return std::to_string(time.count()) + "ms"; }

}  // namespace

Keeper::Keeper(Config const& config, Host& host, Layout const& layout, Members& members, Events events)
    : config_(config), host_(host), layout_(layout), members_(members), events_(std::move(events)) {}

Duration Keeper::patience() const { return std::clamp<Duration>(ttl_ / 6, 500ms, 2500ms); }

void Keeper::connected(bool bar) {
  proof_.forget();
  if (lease_ == 0) return grant();
  auto const done = [this](pb::ResponseHeader const&) { open_ ? resume() : lose(); };
  bar ? put_guard(done) : read_guard(done);
}

void Keeper::disconnected() {
  renewing_ = false;
  host_.cancel(std::exchange(beat_, 0));
  host_.cancel(std::exchange(patience_, 0));
}

void Keeper::stop() {
  stopped_ = true;
  disconnected();
}

/// Whether it was trouble; then it is dealt with.
bool Keeper::trouble(Failure const& why) {
  if (!why) return false;
  if (why.kind() == Failure::Kind::lease) {
    lose();
  } else {
    members_.fail(why);
  }
  return true;
}

// ---- opening a session

void Keeper::grant() {
  pb::LeaseGrantRequest request;
  auto const asked = std::chrono::ceil<std::chrono::seconds>(config_.ttl.value_or(kDefaultTtl));
  request.set_ttl(asked.count());
  members_.wire()->grant(std::move(request),
                         [this, sent = host_.now()](Failure const& why, pb::LeaseGrantResponse const& response) {
                           if (!stopped_ && !trouble(why)) granted(sent, response);
                         });
}

void Keeper::granted(TimePoint sent, pb::LeaseGrantResponse const& response) {
  std::chrono::seconds const granted(response.ttl());
  if (config_.ttl && *config_.ttl != granted) {
    revoke(response.id());
    auto const why =
        fail(errc::invalid_argument, "ttl: asked for " + in_ms(*config_.ttl) + ", etcd grants " + in_ms(granted) +
                                         " (whole seconds, and not less than its own limit)");
    members_.reached();
    return events_.refused(why);
  }
  lease_ = response.id();
  ttl_ = granted;
  put_guard([this, sent](pb::ResponseHeader const& header) { open(sent, header); });
}

void Keeper::open(TimePoint sent, pb::ResponseHeader const& header) {
  open_ = true;
  heard(header);
  members_.reached();
  beat_at(sent + ttl_ / 3);
  char cluster[17];
  std::snprintf(cluster, sizeof cluster, "%llx", static_cast<unsigned long long>(header.cluster_id()));
  events_.opened({"etcd:" + std::string(cluster) + layout_.root(),
                  std::chrono::duration_cast<std::chrono::milliseconds>(ttl_), sent});
}

void Keeper::resume() {
  members_.reached();
  events_.alive();
  if (members_.wire() != nullptr && !renewing_) renew();
}

// ---- the guard

void Keeper::put_guard(std::function<void(pb::ResponseHeader const&)> done) {
  pb::PutRequest request;
  request.set_key(guard_key());
  request.set_value(config_.label);
  request.set_lease(lease_);
  members_.wire()->put(std::move(request),
                       [this, lease = lease_, done](Failure const& why, pb::PutResponse const& response) {
                         if (stopped_ || lease != lease_ || trouble(why)) return;
                         guard_ = std::max(guard_, response.header().revision());
                         heard(response.header());
                         done(response.header());
                       });
}

void Keeper::read_guard(std::function<void(pb::ResponseHeader const&)> done) {
  pb::RangeRequest request;
  request.set_key(guard_key());
  request.set_keys_only(true);
  members_.wire()->range(std::move(request),
                         [this, lease = lease_, done](Failure const& why, pb::RangeResponse const& response) {
                           if (stopped_ || lease != lease_ || trouble(why)) return;
                           guard_seen(response.kvs_size() == 0 ? 0 : response.kvs(0).mod_revision());
                           if (lease != lease_) return;
                           done(response.header());
                         });
}

void Keeper::guard_seen(std::int64_t revision) {
  if (revision == 0) return lose();
  guard_ = std::max(guard_, revision);
}

// ---- renewals

void Keeper::beat_at(TimePoint when) {
  host_.cancel(beat_);
  beat_ = host_.at(when, [this] {
    beat_ = 0;
    renew();
  });
}

void Keeper::hurry() {
  if (lease_ == 0 || renewing_ || members_.wire() == nullptr) return;
  host_.cancel(std::exchange(beat_, 0));
  renew();
}

void Keeper::renew() {
  renewing_ = true;
  proof_.renewing(host_.now());
  pb::LeaseKeepAliveRequest request;
  request.set_id(lease_);
  members_.wire()->keep_alive(std::move(request));
  host_.cancel(patience_);
  patience_ = host_.at(host_.now() + patience(), [this] {
    patience_ = 0;
    members_.fail(silence());
  });
}

void Keeper::kept(pb::LeaseKeepAliveResponse const& response) {
  if (!renewing_ || response.id() != lease_) return;
  // No time left is not taken at its word either: the guard decides.
  if (response.ttl() > 0) proof_.renewed({response.header().member_id(), response.header().raft_term()});
  read_guard([this](pb::ResponseHeader const& header) {
    proven(proof_.confirmed({header.member_id(), header.raft_term()}));
  });
}

void Keeper::proven(std::optional<TimePoint> sent) {
  renewing_ = false;
  host_.cancel(std::exchange(patience_, 0));
  if (!sent) return beat_at(host_.now() + (doubts_++ == 0 ? Duration::zero() : kDoubtPause));
  doubts_ = 0;
  beat_at(*sent + ttl_ / 3);
  host_.proven(*sent);
  events_.beaten();
}

// ---- the end

void Keeper::lose() {
  if (lease_ == 0) return;
  disconnected();
  revoke(std::exchange(lease_, 0));  // what is still on it, should somebody have removed the guard alone
  guard_ = 0;
  if (std::exchange(open_, false)) events_.lost();
  if (members_.wire() != nullptr) grant();
}

void Keeper::revoke(std::int64_t lease) {
  if (members_.wire() == nullptr) return;
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  members_.wire()->revoke(std::move(request), [](Failure const&, pb::LeaseRevokeResponse const&) {});
}

}  // namespace holdfast::detail::etcd
