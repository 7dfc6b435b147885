#include "zk/session.hpp"

#include <algorithm>
#include <random>
#include <system_error>

#include "common/error.hpp"

namespace holdfast::detail {

using namespace std::chrono_literals;

namespace {

constexpr Duration kMostPatience = 5s;  ///< between two attempts to begin

std::vector<std::string> hosts(Config const& config) {
  std::vector<std::string> all;
  for (auto const& [host, port] : config.endpoints)
    all.push_back((host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port));
  return all;
}

std::string joined(std::vector<std::string> const& parts) {
  std::string all;
  for (auto const& part : parts) all += (all.empty() ? "" : ",") + part;
  return all;
}

/// The same for everybody who names the same hosts, in whatever order.
std::string place_of(Config const& config) {
  auto parts = hosts(config);
  std::sort(parts.begin(), parts.end());
  return "zk:" + joined(parts) + config.root;
}

/// Full jitter, so that clients that failed together do not come back together.
Duration back_off(unsigned failures) {
  static thread_local std::minstd_rand random(std::random_device{}());
  Duration const most = std::min<Duration>(kMostPatience, 100ms * (1U << std::min(failures, 8U)));
  return Duration(std::uniform_int_distribution<Duration::rep>(0, most.count())(random));
}

}  // namespace

ZkSession::ZkSession(Config const& config, Host& host, Events events)
    : host_(host),
      events_(std::move(events)),
      config_(config),
      hosts_(joined(hosts(config))),
      place_(place_of(config)),
      door_(std::make_shared<Door>(host)) {}

ZkSession::~ZkSession() {
  door_->shut();
  if (handle_) handle_->close([] {});
}

void ZkSession::open() {
  opened_ = proven_ = host_.now();
  handle_ = std::make_shared<ZkHandle>(
      host_, door_,
      ZkHandle::Events{.failed = [this](int error) { begun_failed(error); },
                       .connected = [this](int timeout_ms) { connected(timeout_ms); },
                       .disconnected = [this] { disconnected(); },
                       .expired = [this] { lose(); },
                       .refused = [this] { refuse(fail(errc::denied, "credentials refused by " + hosts_)); },
                       .changed = events_.changed,
                       .answered = [this](ZkReply const& reply, bool write) { answered(reply, write); }});
  handle_->open(hosts_, config_.ttl.value_or(15s), config_.user.empty() ? "" : config_.user + ":" + config_.password);
  complain_in(std::min<Duration>(config_.connect_timeout / 2, 1s));
}

void ZkSession::stop(std::function<void()> done) {
  host_.cancel(std::exchange(beat_, 0));
  host_.cancel(std::exchange(complaint_, 0));
  ops_.clear();
  waiting_.clear();
  if (!handle_) return host_.defer(std::move(done));
  handle_->close(std::move(done));
}

// ---- the connection

void ZkSession::begun_failed(int error) {
  host_.failed(fail(errc::unavailable, hosts_ + ": " + std::generic_category().message(error), error));
  host_.cancel(std::exchange(complaint_, 0));
  std::exchange(handle_, nullptr)->close([] {});
  beat_ = host_.at(host_.now() + back_off(++failures_), [this] {
    beat_ = 0;
    open();
  });
}

void ZkSession::refuse(error_code why) {
  drop();
  host_.failed(why);
}

void ZkSession::connected(int timeout_ms) {
  std::chrono::milliseconds const granted(timeout_ms);
  host_.cancel(std::exchange(complaint_, 0));
  if (alive_ && granted != ttl_) return lose();  // a member with other limits: what was promised no longer holds
  if (!alive_ && config_.ttl && granted != *config_.ttl)
    return refuse(fail(errc::invalid_argument, "ttl: the ensemble grants " + std::to_string(granted.count()) +
                                                   "ms instead of " + std::to_string(config_.ttl->count()) + "ms"));
  ttl_ = granted;
  if (lag() > ttl_ * 2 / 5)
    return refuse(fail(errc::invalid_argument, "ping_lag: with a ttl of " + std::to_string(granted.count()) +
                                                   "ms it can be at most two fifths of that"));
  connected_ = true;
  failures_ = 0;
  proof_.emplace(lag());
  handle_->exists("/", [](ZkReply const&) {});  // the first evidence on this connection
  beat_at(host_.now() + lag() + ttl_ / 50);     // and the first write that can build on it
  if (std::exchange(alive_, true)) return resume();
  host_.up({place_, granted, opened_});
}

void ZkSession::resume() {
  host_.resumed();
  send_waiting();
  events_.resumed();
}

void ZkSession::disconnected() {
  connected_ = false;
  if (!alive_) return;
  host_.cancel(std::exchange(beat_, 0));
  host_.suspect();
  complain_in(std::min<Duration>(ttl_ / 3, 1s));
}

void ZkSession::complain_in(Duration wait) {
  host_.cancel(complaint_);
  complaint_ = host_.at(host_.now() + wait, [this] {
    complaint_ = 0;
    host_.failed(fail(errc::unavailable, "no answer from " + hosts_));
  });
}

/// The server said that the session is over; nothing of it is left there.
void ZkSession::lose() {
  drop();
  open();
}

void ZkSession::drop() {
  connected_ = false;
  host_.cancel(std::exchange(beat_, 0));
  host_.cancel(std::exchange(complaint_, 0));
  std::exchange(handle_, nullptr)->close([] {});
  if (!std::exchange(alive_, false)) return;
  auto const ops = std::exchange(ops_, {});
  waiting_.clear();
  events_.lost();
  host_.lost();
  for (auto const& [id, op] : ops) op.lost();
}

// ---- the proof of life

/// How late the leader may hear of what a follower answered.
Duration ZkSession::lag() const { return std::max<Duration>(ttl_ / 4, config_.ping_lag); }

void ZkSession::answered(ZkReply const& reply, bool write) {
  if (!reply.from_server()) return;
  if (reply.expired()) {
    if (alive_) lose();
    return;
  }
  if (!alive_) return;
  if (auto const proven = write ? proof_->confirmed(reply.sent) : std::nullopt; proven && *proven > proven_) {
    proven_ = *proven;
    host_.proven(proven_);
  }
  proof_->answered(reply.sent, reply.heard);
}

/// Idle sessions only read, at the connected member; what is held or waited for is worth a write. If the answer is
/// late, so is the next beat: closer behind it than the lag, it could not build on this one.
void ZkSession::beat() {
  auto const next = [this](ZkReply const& reply) {
    if (!reply.cut()) beat_at(std::max(reply.sent + ttl_ / 3, reply.heard + lag()));
  };
  if (events_.busy()) {
    handle_->write_nothing(config_.root.empty() ? "/" : config_.root, next);
  } else {
    handle_->exists("/", next);
  }
  events_.beat();
}

void ZkSession::beat_at(TimePoint when) {
  host_.cancel(beat_);
  beat_ = host_.at(when, [this] {
    beat_ = 0;
    beat();
  });
}

// ---- operations

void ZkSession::add(std::function<void(OpId, bool)> send, std::function<void()> lost) {
  if (!alive_) return host_.defer(std::move(lost));
  OpId const id = ++last_op_;
  ops_.emplace(id, Op{std::move(send), std::move(lost)});
  waiting_.insert(id);
  send_waiting();
}

void ZkSession::finish(OpId id) {
  ops_.erase(id);
  send_waiting();
}

void ZkSession::send_waiting() {
  while (connected_ && !waiting_.empty() && ops_.size() - waiting_.size() < kUnderWay) {
    OpId const id = *waiting_.begin();
    waiting_.erase(waiting_.begin());
    Op& op = ops_.at(id);
    auto const send = op.send;  // the op may be gone by the time this returns
    send(id, std::exchange(op.sent, true));
  }
}

/// A connection that went between two requests of one operation answers the first with its loss, and the next one the
/// second: so it may be there again already.
bool ZkSession::usable(OpId id, ZkReply const& reply) {
  if (!ops_.contains(id)) return false;
  if (!reply.cut()) return true;
  waiting_.insert(id);
  send_waiting();
  return false;
}

}  // namespace holdfast::detail
