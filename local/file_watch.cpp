#include "local/file_watch.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/error.hpp"

namespace holdfast::detail::file {

bool drain(int fifo, std::vector<Bell>& bells) {
  int const asked = ::fcntl(fifo, F_GETPIPE_SZ);
  auto const capacity = static_cast<std::size_t>(std::max(asked, 4096));
  std::array<char, 4096> buffer{};
  std::size_t total = 0;
  for (;;) {
    auto const n = ::read(fifo, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    auto const size = static_cast<std::size_t>(n);
    total += size;
    if (size % sizeof(std::uint64_t) != 0) total += capacity;
    for (std::size_t i = 0; i + sizeof(std::uint64_t) <= size; i += sizeof(std::uint64_t)) {
      std::uint64_t message = 0;
      std::memcpy(&message, buffer.data() + i, sizeof message);
      bells.push_back(Bell::decode(message));
    }
    if (total >= 4 * capacity) break;  // somebody rings faster than we read; we are told again
  }
  // Whoever found it full saw `capacity` bytes that nobody but us takes out, and we take out all of them at a time.
  return total < capacity / 2;
}

Result<void> Watch::open(int bell) {
  close();
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno(errno, "epoll");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;  // no session has this id
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell, &event) != 0) return fail_errno(errno, "epoll");
  error_code error;
  descriptor_.emplace(host_.loop());
  descriptor_->assign(epoll.get(), error);
  if (error) {
    descriptor_.reset();
    return fail(errc::unavailable, "epoll: " + error.message(), error.value());
  }
  epoll_ = KeptFd(std::move(epoll));
  bell_ = bell;
  alive_ = std::make_shared<bool>(true);
  arm();
  return {};
}

void Watch::close() {
  alive_.reset();
  if (descriptor_) {
    (void)descriptor_->release();  // the number is epoll_'s to close
    descriptor_.reset();
  }
  peers_.clear();
  idle_.clear();
  epoll_.reset();
  bell_ = -1;
}

void Watch::arm() {
  descriptor_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [this, host = &host_, alive = std::weak_ptr<bool>(alive_)](error_code error) {
                            if (error || alive.expired()) return;
                            host->post([this, alive] {
                              if (!alive.expired()) ready();
                            });
                          });
}

void Watch::ready() {
  std::array<epoll_event, 64> events{};
  for (;;) {
    int const n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    bool bell = false;
    for (int i = 0; i < n; ++i) {
      auto const session = events[static_cast<std::size_t>(i)].data.u64;
      if (session == 0)
        bell = true;
      else
        end(session);
    }
    if (bell) read_bell();
    if (n < static_cast<int>(events.size())) break;
  }
  arm();
}

void Watch::read_bell() {
  bells_.clear();
  bool const complete = drain(bell_, bells_);
  for (auto const bell : bells_) events_.rung(bell);
  if (!complete) events_.bells_lost();
}

void Watch::end(std::uint64_t session) {
  if (peers_.erase(session) != 0) events_.hung_up(session);
}

bool Watch::add(std::uint64_t session, Fd fifo) {
  if (peers_.contains(session)) return true;
  epoll_event event{};
  event.events = EPOLLET;
  event.data.u64 = session;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fifo.get(), &event) != 0) return false;
  peers_.emplace(session, Peer{KeptFd(std::move(fifo)), 0});
  return true;
}

void Watch::hold(std::uint64_t session) {
  if (auto const peer = peers_.find(session); peer != peers_.end()) ++peer->second.waits;
}

void Watch::drop(std::uint64_t session) {
  auto const peer = peers_.find(session);
  if (peer == peers_.end() || peer->second.waits == 0 || --peer->second.waits != 0) return;
  std::erase(idle_, session);
  idle_.push_back(session);
  while (idle_.size() > kIdle) {
    auto const oldest = peers_.find(idle_.front());
    if (oldest != peers_.end() && oldest->second.waits == 0) peers_.erase(oldest);
    idle_.pop_front();
  }
}

void Watch::probe() {
  std::vector<std::uint64_t> dead;
  for (auto const& [session, peer] : peers_)
    if (locked_by_other(peer.fifo.get()) == false) dead.push_back(session);
  for (auto const session : dead) end(session);
}

}  // namespace holdfast::detail::file
