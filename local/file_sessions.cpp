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
  explicit FileName(std::uint64_t id, char const* before = "") {
    auto const at = ::stpcpy(text, before);
    *std::to_chars(at, std::end(text) - 1, id).ptr = 0;
  }
  char text[32];
};

constexpr char kUnfinishedFifo[] = "new.";

}  // namespace

// Under its own name it appears with its rights and its lock, so that nobody is kept from asking whether it lives.
Result<KeptFd> Sessions::create(std::uint64_t id, Rights rights) const {
  FileName const name(id);
  FileName const unfinished(id, kUnfinishedFifo);
  if (::mkfifoat(dir_.get(), unfinished.text, rights.mode) != 0) {
    // Files could be made here just before, so this is not about rights.
    if (errno == EPERM || errno == EOPNOTSUPP)
      return fail(errc::not_supported, where(id) + ": the file system has no FIFOs", errno);
    return fail_errno(errno, where(id));
  }
  // For reading and writing: the bell never sees its last writer go, and opening it waits for nobody.
  auto fd =
      KeptFd::open([&] { return ::openat(dir_.get(), unfinished.text, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW); });
  int error = fd ? 0 : errno;
  if (error == 0 && !rights.give(fd.get())) error = errno;
  if (error == 0 && !try_lock(fd.get())) error = errno;
  if (error == 0 && ::renameat(dir_.get(), unfinished.text, dir_.get(), name.text) != 0) error = errno;
  if (error != 0) {
    ::unlinkat(dir_.get(), unfinished.text, 0);
    return fail_errno(error, where(id));
  }
  return fd;
}

Fd Sessions::open_for_hangup(std::uint64_t id) const {
  return Fd(::openat(dir_.get(), FileName(id).text, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
}

Result<bool> Sessions::alive(std::uint64_t id) const {
  auto const fd = open_for_hangup(id);
  if (!fd && errno == ENOENT) return false;
  if (!fd) return {boost::system::in_place_error, fail_errno(errno, where(id))};
  auto const locked = locked_by_other(fd.get());
  if (!locked) return {boost::system::in_place_error, fail_errno(errno, where(id))};
  return *locked;
}

Sessions::Rung Sessions::ring(std::uint64_t id, std::uint64_t message) const {
  // For reading, too, or the owner's death between these two calls would cost us a SIGPIPE.
  Fd const fd(::openat(dir_.get(), FileName(id).text, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno == ENOENT ? Rung::nobody_there : Rung::failed;
  if (locked_by_other(fd.get()) == false) return Rung::nobody_there;
  (void)!::write(fd.get(), &message, sizeof message);
  return Rung::yes;
}

void Sessions::remove(std::uint64_t id) const { ::unlinkat(dir_.get(), FileName(id).text, 0); }

bool Sessions::has(std::uint64_t id, int fd) const { return same_file(dir_.get(), FileName(id).text, fd); }

Result<void> Sessions::sweep() const {
  auto const names = names_in(dir_.get(), path_);
  if (!names) return names.error();
  for (auto const& name : *names)
    if (name.starts_with(kUnfinishedFifo)) ::unlinkat(dir_.get(), name.c_str(), 0);
  return {};
}

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
