#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "zk/session.hpp"

namespace holdfast::detail {

/// Who waits for which node to go: one watch at the server per node, however many wait.
///
/// On a reconnect the C client sends all its watches in one packet, which the server refuses above 1 MB, for ever. So
/// their paths are kept below that; nodes beyond it, until there is room, and nodes that may not be read, are asked for
/// on every beat.
///
/// Thread safety: distinct objects safe; shared objects only inside the monitor.
class ZkWatches {
 public:
  ZkWatches(ZkSession& session, Host& host) : session_(session), host_(host) {}

  WatchId add(std::string path, std::function<void()> gone);
  void forget(WatchId id);
  bool empty() const { return ids_.empty(); }

  void changed(std::string const& path, bool deleted);  ///< the server told
  void beat();
  void resumed();
  void clear();

 private:
  enum class State { unset, set, polled };
  struct Node {
    std::map<WatchId, std::function<void()>> waiting;
    State state = State::unset;
    bool readable = true;
  };

  static constexpr std::size_t kBytes = 900'000;  ///< of paths in one packet
  static constexpr std::size_t kPerPath = 4;      ///< what each costs in it besides

  void begin(std::string const& path);
  void set(std::string const& path);
  void poll(std::string const& path);
  void gone(std::string const& path);
  void drop(std::map<std::string, Node>::iterator node);

  ZkSession& session_;
  Host& host_;
  std::map<std::string, Node> nodes_;
  std::map<WatchId, std::string> ids_;
  std::set<std::string> polled_;
  std::size_t bytes_ = 0;  ///< of those that are set or about to be
  WatchId last_ = 0;
};

}  // namespace holdfast::detail
