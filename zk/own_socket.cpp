#include "zk/own_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "common/fork.hpp"

namespace holdfast::detail {
namespace {

/// Through the kernel, so that a wrong address is an error and not the end of the process.
template <class T>
std::optional<T> read_at(void const* address) {
  T value{};
  iovec const here{&value, sizeof value};
  iovec const there{const_cast<void*>(address), sizeof value};
  if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != sizeof value) return std::nullopt;
  return value;
}

/// Of the socket that the library says it is connected with; other sockets to the same server are none of our business,
/// so its address alone does not do. A handle begins with a pointer to its socket, which begins with the descriptor
/// (3.5.5 to 3.9). That is nowhere promised: what is found there is believed only if it is connected to that server.
std::optional<int> socket_of(zhandle_t* handle) {
  sockaddr_storage server{}, other{};
  socklen_t size = sizeof server, other_size = sizeof other;
  if (!zookeeper_get_connected_host(handle, reinterpret_cast<sockaddr*>(&server), &size)) return std::nullopt;
  auto const socket = read_at<void const*>(handle);
  auto const fd = socket ? read_at<int>(*socket) : std::nullopt;
  if (!fd || ::getpeername(*fd, reinterpret_cast<sockaddr*>(&other), &other_size) != 0) return std::nullopt;
  if (other_size != size || std::memcmp(&server, &other, size) != 0) return std::nullopt;
  return fd;
}

}  // namespace

void keep_socket_here(zhandle_t* handle) {
  auto const fd = socket_of(handle);
  if (!fd) return;
  ::fcntl(*fd, F_SETFD, FD_CLOEXEC);
  close_in_child(*fd);  // the C client closes it by itself: then this is forgotten with the number's next use
}

}  // namespace holdfast::detail
