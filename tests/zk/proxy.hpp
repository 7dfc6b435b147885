#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace holdfast::test {

/// ZooKeeper's request codes.
enum class Op : int { create = 15, remove = 2, exists = 3, get = 4, children = 8, sync = 9, ping = 11, multi = 14 };

/// Stands between a client and one member, understands enough of what the client sends to count requests, and cuts the
/// connection right at one of them.
///
/// Thread safety: shared objects safe.
class Proxy {
 public:
  enum class When {
    before,  ///< the request is not passed on
    after,   ///< it is passed on, its answer is not
  };

  explicit Proxy(std::string target);
  ~Proxy();

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  /// New connections go there.
  void target(std::string address);

  /// At the next request of this kind, after letting some of them pass. Then new connections wait until `go_on()`.
  void cut_at(Op op, When when, int after = 0);
  bool was_cut() const { return was_cut_; }
  void go_on() { held_ = false; }

  /// Nothing passes, in either direction, but connections stay.
  void freeze(bool frozen) { frozen_ = frozen; }

  int count(Op op) const;
  int events() const { return events_; }  ///< watch events
  void reset();                           ///< the counters

 private:
  struct Side {
    int fd = -1;
    std::string read;  ///< not yet a whole frame
  };
  struct Pair {
    Side client, server;
    bool greeted = false;
  };

  void run();
  void accept();
  bool from_client(Pair& pair);
  bool from_server(Pair& pair);

  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false}, held_{false}, frozen_{false}, was_cut_{false};
  std::atomic<int> events_{0};
  mutable std::mutex mutex_;
  std::string target_;
  std::map<int, int> counts_;
  std::optional<std::pair<Op, When>> cut_;
  int pass_ = 0;               ///< how many of that kind still pass
  std::map<int, Pair> pairs_;  ///< by the client's descriptor
  std::thread thread_;
};

}  // namespace holdfast::test
