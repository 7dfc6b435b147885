#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/backend.hpp"
#include "zk/handle.hpp"
#include "zk/proof.hpp"

namespace holdfast::detail {

/// A client's session with an ensemble: opened again whenever it is lost, kept alive and proven by a beat every third
/// of its timeout, with the requests that have yet to be answered.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class ZkSession {
 public:
  using OpId = std::uint64_t;

  struct Events {
    std::function<bool()> busy;  ///< whether anything is held or waited for
    std::function<void()> beat;
    std::function<void()> resumed;
    std::function<void()> lost;
    std::function<void(std::string const& path, bool deleted)> changed;
  };

  ZkSession(Config const& config, Host& host, Events events);
  ZkSession(ZkSession const&) = delete;
  ~ZkSession();

  void start() { open(); }
  void stop(std::function<void()> done);

  bool connected() const { return connected_; }
  ZkHandle& handle() { return *handle_; }

  /// Begins something that is to be answered: `send` now or once connected, and again (`again`: what was sent before
  /// may have had its effect, or still have it) whenever the connection went in between; `lost` if the session did.
  ///
  /// Only so many are under way at a time: the server answers in order, so a beat that came behind thousands of
  /// requests would be answered too late to prove anything.
  void add(std::function<void(OpId, bool again)> send, std::function<void()> lost);
  void finish(OpId id);

  /// True if that was an answer. If not, the operation is sent again by and by, or told that the session is lost.
  bool usable(OpId id, ZkReply const& reply);

 private:
  struct Op {
    std::function<void(OpId, bool)> send;
    std::function<void()> lost;
    bool sent = false;
  };

  static constexpr std::size_t kUnderWay = 256;

  void open();
  void send_waiting();
  void begun_failed(int error);
  void connected(int timeout_ms);
  void disconnected();
  void resume();
  void lose();
  void drop();
  Duration lag() const;
  void answered(ZkReply const& reply, bool write);
  void beat();
  void beat_at(TimePoint when);
  void complain_in(Duration wait);
  void refuse(error_code why);

  Host& host_;
  Events events_;
  Config const config_;
  std::string const hosts_;
  std::string const place_;
  std::shared_ptr<Door> const door_;
  std::shared_ptr<ZkHandle> handle_;
  bool connected_ = false;
  bool alive_ = false;  ///< there is a session, as far as is known
  unsigned failures_ = 0;
  TimePoint opened_{};
  Duration ttl_{};
  std::optional<Proof> proof_;
  TimePoint proven_{};  ///< from when on a timeout is known to have been proven
  TimerId beat_ = 0;
  TimerId complaint_ = 0;
  OpId last_op_ = 0;
  std::map<OpId, Op> ops_;
  std::set<OpId> waiting_;  ///< those of them that are to be sent
};

}  // namespace holdfast::detail
