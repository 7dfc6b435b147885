#include "local/file_sessions.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "common/error.hpp"

namespace holdfast::detail::file {

namespace {

/// A session's id as a file name, without a string on the heap.
struct FileName {
  explicit FileName(std::uint64_t id) { *std::to_chars(text, text + sizeof text - 1, id).ptr = 0; }
  char text[24];
};

}  // namespace

Result<KeptFd> Sessions::create(std::uint64_t id, mode_t mode) const {
  FileName const name(id);
  if (::mkfifoat(dir_.get(), name.text, mode) != 0) return fail_errno(errno, where(id));
  // For reading and writing: the bell never sees its last writer go, and opening it waits for nobody.
  Fd fd(::openat(dir_.get(), name.text, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  int error = fd ? 0 : errno;
  if (error == 0 && (mode & 077U) != 0 && ::fchmod(fd.get(), mode) != 0) error = errno;  // umask must not decide
  if (error == 0 && !try_lock(fd.get())) error = errno;
  if (error != 0) {
    remove(id);
    return fail_errno(error, where(id));
  }
  return KeptFd(std::move(fd));
}

Fd Sessions::open_for_hangup(std::uint64_t id) const {
  return Fd(::openat(dir_.get(), FileName(id).text, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
}

Result<bool> Sessions::alive(std::uint64_t id) const {
  auto const fd = open_for_hangup(id);
  if (!fd && errno == ENOENT) return false;
  if (!fd) return {boost::system::in_place_error, fail_errno(errno, where(id))};
  return locked_by_other(fd.get());
}

void Sessions::ring(std::uint64_t id, std::uint64_t message) const {
  Fd const fd(::openat(dir_.get(), FileName(id).text, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (fd) (void)!::write(fd.get(), &message, sizeof message);
}

void Sessions::remove(std::uint64_t id) const { ::unlinkat(dir_.get(), FileName(id).text, 0); }

bool Sessions::has(std::uint64_t id, int fd) const { return same_file(dir_.get(), FileName(id).text, fd); }

Result<std::vector<std::uint64_t>> Sessions::all() const {
  auto const names = names_in(dir_.get(), path_);
  if (!names) return names.error();
  std::vector<std::uint64_t> ids;
  for (auto const& name : *names) {
    std::uint64_t id = 0;
    auto const end = name.data() + name.size();
    if (auto const read = std::from_chars(name.data(), end, id); read.ec == std::errc{} && read.ptr == end)
      ids.push_back(id);
  }
  return ids;
}

Result<std::vector<std::string>> names_in(int dir, std::string const& path) {
  Fd fd(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, path);
  std::unique_ptr<DIR, int (*)(DIR*)> const stream(::fdopendir(fd.get()), ::closedir);
  if (!stream) return fail_errno(errno, path);
  (void)fd.release();  // the stream's now
  std::vector<std::string> names;
  errno = 0;
  while (auto const* entry = ::readdir(stream.get())) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (errno != 0) return fail_errno(errno, path);
  return names;
}

bool same_file(int dir, char const* name, int fd) {
  struct stat there {};
  struct stat ours {};
  return ::fstatat(dir, name, &there, 0) == 0 && ::fstat(fd, &ours) == 0 && there.st_dev == ours.st_dev &&
         there.st_ino == ours.st_ino;
}

}  // namespace holdfast::detail::file
