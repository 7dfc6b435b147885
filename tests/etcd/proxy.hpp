#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::test {

/// Stands between a client and one member. It passes bytes, and strikes once at a chosen request: a piece of what the
/// client sends that has all the given words in it (keys are in plain text in there).
///
/// Thread safety: shared objects safe.
class Proxy {
 public:
  enum class When {
    before,  ///< the request is not passed on, and the connection is cut
    after,   ///< it is passed on, its answer is not; the connection is cut by cut()
    late,    ///< the client's side is cut, the member's is kept, and gets the request with deliver()
  };

  explicit Proxy(std::string target);
  ~Proxy();

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  void strike_at(std::vector<std::string> words, When when);
  bool has_struck() const { return struck_; }
  void deliver();

  void cut();                                  ///< all connections
  void mute(bool on);                          ///< nothing gets from the member to the client, but connections stay
  void delay(std::chrono::milliseconds time);  ///< so late comes what the member says
  void target(std::string address);            ///< for new connections

 private:
  struct Pair {
    int client = -1;  ///< -1: cut
    int server = -1;
    std::deque<std::pair<std::chrono::steady_clock::time_point, std::string>> on_its_way;  ///< to the client
    std::string held;  ///< what is to be delivered late
  };
  struct Strike {
    std::vector<std::string> words;
    When when;
  };

  void run();
  void accept();
  bool from_client(Pair& pair);
  bool from_server(Pair& pair);
  bool pass_on(Pair& pair);
  static void close(Pair& pair);

  std::string target_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false}, struck_{false};
  std::mutex mutex_;
  bool mute_ = false;
  std::chrono::milliseconds delay_{0};
  std::optional<Strike> strike_;
  std::list<Pair> pairs_;
  std::thread thread_;
};

}  // namespace holdfast::test
