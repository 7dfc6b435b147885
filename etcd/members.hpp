#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/backend.hpp"
#include "etcd/wire.hpp"

namespace holdfast::detail::etcd {

/// The channel to the cluster. It is pinned to one member, since what that member's watches and local reads say fits
/// together only there, and fails over as a whole: to the next member, and with growing, jittered pauses once all of
/// them were tried in vain.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class Members {
 public:
  struct Events {
    std::function<void(Wire&)> connected;  ///< logged in; whether the member is of use is for the listener to find out
    std::function<void()> disconnected;
    std::function<void(error_code)> failed;  ///< all were tried in vain, or trying on will not help
    Wire::Events streams;                    ///< `broken` is not used
  };

  Members(Config const& config, Host& host, Events events);
  ~Members() { stop(); }

  void start() { connect(); }
  void stop();

  /// Null between two members.
  Wire* wire() { return logged_in_ ? wire_.get() : nullptr; }
  std::string const& member() const { return names_[current_]; }

  /// The member answered as it should: it is kept.
  void reached();

  /// The member is of no use: on to the next.
  void fail(Failure const& why);

 private:
  void connect();
  void login();
  void give_up(std::string const& why, bool same_again, error_code final);
  void keep(std::function<bool()> settled);
  Duration pause();
  error_code all_failures() const;

  Config const config_;
  Host& host_;
  Events const events_;
  std::vector<std::string> const names_;
  std::map<std::string, std::string> failures_;  ///< the last one of each member since one was reached
  std::size_t current_ = 0;
  std::unique_ptr<Wire> wire_;
  bool logged_in_ = false;
  bool fresh_login_ = false;  ///< nothing but refusals since the last login
  unsigned tried_ = 0;        ///< attempts since one was reached
  TimerId timer_ = 0;         ///< the end of this attempt, or the beginning of the next one
  std::minstd_rand random_;
};

}  // namespace holdfast::detail::etcd
