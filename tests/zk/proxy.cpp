#include "tests/zk/proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace holdfast::test {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int number_at(std::string const& bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, 4);
  return static_cast<int>(ntohl(value));
}

/// Takes one frame off the front, with its length; empty if there is none.
std::string take_frame(std::string& bytes) {
  if (bytes.size() < 4) return {};
  auto const size = static_cast<std::size_t>(number_at(bytes, 0)) + 4;
  if (bytes.size() < size) return {};
  std::string frame = bytes.substr(0, size);
  bytes.erase(0, size);
  return frame;
}

bool read_some(int fd, std::string& into) {
  char buffer[65536];
  ssize_t const got = ::read(fd, buffer, sizeof buffer);
  if (got > 0) into.append(buffer, static_cast<std::size_t>(got));
  return got > 0;
}

bool write_all(int fd, std::string const& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    ssize_t const put = ::send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (put <= 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return true;
}

}  // namespace

Proxy::Proxy(std::string target) : target_(std::move(target)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  (void)::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
  (void)::listen(listener_, 16);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  stop_ = true;
  thread_.join();
  for (auto const& [fd, pair] : pairs_) {
    ::close(pair.client.fd);
    ::close(pair.server.fd);
  }
  ::close(listener_);
}

void Proxy::target(std::string address) {
  std::lock_guard const guard(mutex_);
  target_ = std::move(address);
}

void Proxy::cut_at(Op op, When when, int after) {
  std::lock_guard const guard(mutex_);
  pass_ = after;
  was_cut_ = false;
  cut_.emplace(op, when);
}

int Proxy::count(Op op) const {
  std::lock_guard const guard(mutex_);
  auto const found = counts_.find(static_cast<int>(op));
  return found == counts_.end() ? 0 : found->second;
}

void Proxy::reset() {
  std::lock_guard const guard(mutex_);
  counts_.clear();
  events_ = 0;
}

void Proxy::run() {
  while (!stop_) {
    std::vector<pollfd> fds;
    if (!held_) fds.push_back({listener_, POLLIN, 0});
    if (!frozen_)
      for (auto const& [fd, pair] : pairs_) {
        fds.push_back({pair.client.fd, POLLIN, 0});
        fds.push_back({pair.server.fd, POLLIN, 0});
      }
    if (::poll(fds.data(), fds.size(), 5) <= 0) continue;
    for (pollfd const& each : fds) {
      if (each.revents == 0) continue;
      if (each.fd == listener_) {
        accept();
        continue;
      }
      for (auto pair = pairs_.begin(); pair != pairs_.end(); ++pair) {
        bool const client = pair->second.client.fd == each.fd;
        if (!client && pair->second.server.fd != each.fd) continue;
        if (client ? from_client(pair->second) : from_server(pair->second)) break;
        ::close(pair->second.client.fd);
        ::close(pair->second.server.fd);
        pairs_.erase(pair);
        break;
      }
    }
  }
}

void Proxy::accept() {
  int const client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  std::string target;
  {
    std::lock_guard const guard(mutex_);
    target = target_;
  }
  int const server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in const address = loopback(std::stoi(target.substr(target.find(':') + 1)));
  if (::connect(server, reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0) {
    ::close(server);
    ::close(client);
    return;
  }
  pairs_[client] = {{client, {}}, {server, {}}, false};
}

bool Proxy::from_client(Pair& pair) {
  if (!read_some(pair.client.fd, pair.client.read)) return false;
  for (std::string frame; !(frame = take_frame(pair.client.read)).empty();) {
    if (!std::exchange(pair.greeted, true)) {  // its first frame asks for a session
      if (!write_all(pair.server.fd, frame)) return false;
      continue;
    }
    int const op = number_at(frame, 8);
    std::optional<When> cut;
    {
      std::lock_guard const guard(mutex_);
      ++counts_[op];
      if (cut_ && static_cast<int>(cut_->first) == op && pass_-- == 0) cut = cut_->second;
      if (cut) cut_.reset();
    }
    if (cut != When::before && !write_all(pair.server.fd, frame)) return false;
    if (cut) {
      held_ = true;
      was_cut_ = true;
      return false;
    }
  }
  return true;
}

bool Proxy::from_server(Pair& pair) {
  if (!read_some(pair.server.fd, pair.server.read)) return false;
  for (std::string frame; !(frame = take_frame(pair.server.read)).empty();) {
    if (number_at(frame, 4) == -1) ++events_;  // an event has this in place of a request's number
    if (!write_all(pair.client.fd, frame)) return false;
  }
  return true;
}

}  // namespace holdfast::test
