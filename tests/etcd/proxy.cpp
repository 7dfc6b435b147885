#include "tests/etcd/proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace holdfast::test {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

std::string read_some(int fd) {
  std::array<char, 65536> buffer{};
  ssize_t const got = ::read(fd, buffer.data(), buffer.size());
  return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
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
  for (Pair& pair : pairs_) close(pair);
  ::close(listener_);
}

void Proxy::strike_at(std::vector<std::string> words, When when) {
  std::lock_guard const guard(mutex_);
  struck_ = false;
  strike_ = Strike{std::move(words), when};
}

void Proxy::deliver() {
  std::lock_guard const guard(mutex_);
  for (Pair& pair : pairs_) write_all(pair.server, std::exchange(pair.held, {}));
}

void Proxy::cut() {
  std::lock_guard const guard(mutex_);
  for (Pair& pair : pairs_) close(pair);
  pairs_.clear();
  mute_ = false;
}

void Proxy::mute(bool on) {
  std::lock_guard const guard(mutex_);
  mute_ = on;
}

void Proxy::delay(std::chrono::milliseconds time) {
  std::lock_guard const guard(mutex_);
  delay_ = time;
}

void Proxy::target(std::string address) {
  std::lock_guard const guard(mutex_);
  target_ = std::move(address);
}

void Proxy::close(Pair& pair) {
  for (int* fd : {&pair.client, &pair.server})
    if (*fd >= 0) ::close(std::exchange(*fd, -1));
}

void Proxy::run() {
  while (!stop_) {
    std::vector<pollfd> fds{{listener_, POLLIN, 0}};
    {
      std::lock_guard const guard(mutex_);
      for (Pair const& pair : pairs_) {
        if (pair.client >= 0) fds.push_back({pair.client, POLLIN, 0});
        if (!mute_) fds.push_back({pair.server, POLLIN, 0});
      }
    }
    ::poll(fds.data(), fds.size(), 5);
    std::lock_guard const guard(mutex_);
    if (fds.front().revents != 0) accept();
    auto const ready = [&](int fd) {
      return fd >= 0 && std::any_of(fds.begin(), fds.end(), [&](auto& each) { return each.fd == fd && each.revents; });
    };
    for (Pair& pair : pairs_) {
      if (ready(pair.client) && !from_client(pair)) close(pair);
      if (ready(pair.server) && !from_server(pair)) close(pair);
      if (pair.client >= 0 && !pass_on(pair)) close(pair);
    }
    std::erase_if(pairs_, [](Pair const& pair) { return pair.server < 0; });
  }
}

void Proxy::accept() {
  int const client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  int const server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in const address = loopback(std::stoi(target_.substr(target_.find(':') + 1)));
  if (::connect(server, reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0) {
    pairs_.push_back({client, server, {}, {}});
  } else {
    ::close(server);
    ::close(client);
  }
}

bool Proxy::from_client(Pair& pair) {
  std::string const bytes = read_some(pair.client);
  if (bytes.empty()) return false;
  bool const hit = strike_ && std::all_of(strike_->words.begin(), strike_->words.end(),
                                          [&](auto const& word) { return bytes.find(word) != std::string::npos; });
  if (!hit) return write_all(pair.server, bytes);
  When const when = std::exchange(strike_, std::nullopt)->when;
  struck_ = true;
  if (when == When::before) return false;
  if (when == When::after) {
    mute_ = true;
    return write_all(pair.server, bytes);
  }
  pair.held = bytes;
  ::close(std::exchange(pair.client, -1));
  return true;
}

bool Proxy::from_server(Pair& pair) {
  if (mute_) return true;
  std::string bytes = read_some(pair.server);
  if (bytes.empty()) return false;
  pair.on_its_way.emplace_back(std::chrono::steady_clock::now() + delay_, std::move(bytes));
  return true;
}

bool Proxy::pass_on(Pair& pair) {
  for (auto& queue = pair.on_its_way; !queue.empty() && queue.front().first <= std::chrono::steady_clock::now();) {
    if (!write_all(pair.client, queue.front().second)) return false;
    queue.pop_front();
  }
  return true;
}

}  // namespace holdfast::test
