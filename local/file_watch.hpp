#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/backend.hpp"
#include "local/file_fd.hpp"

namespace holdfast::detail::file {

/// What a bell says: this entry has left.
struct Bell {
  std::uint64_t ticket = 0;
  bool nobody_ahead = false;

  std::uint64_t encode() const { return ticket << 1U | (nobody_ahead ? 1U : 0U); }
  static Bell decode(std::uint64_t message) { return {message >> 1U, (message & 1U) != 0}; }
};

/// Reads all bells from an own FIFO. False if some may have been lost, because it was full or somebody wrote rubbish.
bool drain(int fifo, std::vector<Bell>& bells);

/// Waits for the own bell to be rung and for peers' sessions to end: one epoll instance, which is itself watched
/// through one descriptor on the client's loop.
///
/// A peer is watched through its FIFO, open for reading; with no event asked for, epoll tells of the hang-up alone, and
/// bells that others ring there wake nobody here. The kernel drops a dying owner's lock before the hang-up shows.
///
/// Thread safety: distinct objects safe; shared objects unsafe: only inside the monitor. Events come inside the
/// monitor.
class Watch {
 public:
  class Events {
   public:
    virtual void rung(Bell bell) = 0;
    virtual void bells_lost() = 0;  ///< anything may have happened
    virtual void hung_up(std::uint64_t session) = 0;

   protected:
    ~Events() = default;
  };

  Watch(Host& host, Events& events) : host_(host), events_(events) {}
  ~Watch() { close(); }
  Watch(Watch const&) = delete;
  Watch& operator=(Watch const&) = delete;

  /// Starts, with the own FIFO; it stays the caller's.
  Result<void> open(int bell);
  void close();

  /// Begins to watch a peer through its FIFO, unless it is watched already. False if that did not work.
  bool add(std::uint64_t session, Fd fifo);

  /// The FIFO through which a peer is watched; -1 if it is not.
  int fifo(std::uint64_t session) const {
    auto const peer = peers_.find(session);
    return peer == peers_.end() ? -1 : peer->second.fifo.get();
  }

  /// One wait more or less for a watched peer. A few that nobody needs are kept: contenders meet again.
  void hold(std::uint64_t session);
  void drop(std::uint64_t session);

  /// Asks the kernel about all watched peers; hung_up for those that are dead. For the one case in which the hang-up
  /// does not show: a process that was stopped, or forked, while it rang the bell of the dead.
  void probe();

 private:
  static constexpr std::size_t kIdle = 16;

  struct Peer {
    KeptFd fifo;
    unsigned waits = 0;
  };

  void arm();
  void ready();
  void read_bell();
  void end(std::uint64_t session);

  Host& host_;
  Events& events_;
  int bell_ = -1;
  KeptFd epoll_;
  std::optional<boost::asio::posix::stream_descriptor> descriptor_;
  std::unordered_map<std::uint64_t, Peer> peers_;
  std::deque<std::uint64_t> idle_;  ///< peers that may have no waits left, oldest first
  std::vector<Bell> bells_;
  std::shared_ptr<bool> alive_;  ///< handlers that come late find it gone
};

}  // namespace holdfast::detail::file
