#pragma once

#include <functional>
#include <optional>

#include "common/backend.hpp"
#include "etcd/layout.hpp"
#include "etcd/members.hpp"
#include "etcd/proof.hpp"

namespace holdfast::detail::etcd {

/// Keeps the client's one lease alive, with the guard key on it: renewed at a third of its time, on another member if
/// this one does not answer, and proven by the rule of RenewalProof. That the guard is gone, and nothing else, says
/// that the lease is lost; then a new one is got.
///
/// Every join compares the guard's revision. Putting the guard anew bars whatever was sent before and has yet to
/// arrive.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class Keeper {
 public:
  struct Events {
    std::function<void(SessionInfo)> opened;
    std::function<void()> alive;   ///< on this connection, after another one
    std::function<void()> lost;    ///< a new lease is being got
    std::function<void()> beaten;  ///< a renewal was proven
    std::function<void(error_code)> refused;
  };

  Keeper(Config const& config, Host& host, Layout const& layout, Members& members, Events events);

  /// `bar`: requests of an earlier connection may be under way and must not take effect any more.
  void connected(bool bar);
  void disconnected();
  void kept(pb::LeaseKeepAliveResponse const& response);
  void stop();  ///< for good

  /// Renews now, to learn whether the member still answers.
  void hurry();

  /// A request found the guard so: absent (0), or put anew.
  void guard_seen(std::int64_t revision);

  std::int64_t lease() const { return lease_; }  ///< 0: none
  std::string guard_key() const { return layout_.guard(lease_); }
  std::int64_t guard_revision() const { return guard_; }
  Duration patience() const;  ///< how long an answer may take before the member is doubted
  void heard(pb::ResponseHeader const& header) { proof_.heard({header.member_id(), header.raft_term()}); }

 private:
  void grant();
  void granted(TimePoint sent, pb::LeaseGrantResponse const& response);
  void put_guard(std::function<void(pb::ResponseHeader const&)> done);
  void read_guard(std::function<void(pb::ResponseHeader const&)> done);
  void open(TimePoint sent, pb::ResponseHeader const& header);
  void resume();
  void renew();
  void proven(std::optional<TimePoint> sent);
  void lose();
  void revoke(std::int64_t lease);
  bool trouble(Failure const& why);
  void beat_at(TimePoint when);

  Config const config_;
  Host& host_;
  Layout const& layout_;
  Members& members_;
  Events const events_;
  RenewalProof proof_;
  std::int64_t lease_ = 0;
  std::int64_t guard_ = 0;  ///< its revision
  Duration ttl_{};
  bool stopped_ = false;   ///< answers may still come, and change nothing
  bool open_ = false;      ///< a session was reported and not yet lost
  bool renewing_ = false;  ///< a renewal has yet to be answered, or its confirmation
  unsigned doubts_ = 0;    ///< renewals in a row that were answered and prove nothing
  TimerId beat_ = 0;
  TimerId patience_ = 0;
};

}  // namespace holdfast::detail::etcd
