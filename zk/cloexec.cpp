#include "zk/cloexec.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>

namespace holdfast::detail {

void set_cloexec(zhandle_t* handle) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (!zookeeper_get_connected_host(handle, reinterpret_cast<sockaddr*>(&peer), &size)) return;
  DIR* const all = ::opendir("/proc/self/fd");
  if (!all) return;
  while (dirent const* const each = ::readdir(all)) {
    int const fd = std::atoi(each->d_name);
    sockaddr_storage other{};
    socklen_t other_size = sizeof other;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&other), &other_size) != 0) continue;
    if (other_size == size && std::memcmp(&peer, &other, size) == 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  ::closedir(all);
}

}  // namespace holdfast::detail
