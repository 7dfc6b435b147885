#include "local/file_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "common/error.hpp"

namespace holdfast::detail::file {

namespace {

// From linux/magic.h and the file systems' own sources. FUSE is among them since it tells nothing about what is behind.
constexpr std::array<std::uint32_t, 18> kNetworkFileSystems = {
    0x6969,      // NFS
    0x517b,      // SMB
    0xfe534d42,  // SMB2
    0xff534d42,  // CIFS
    0x01021997,  // 9P
    0x00c36400,  // Ceph
    0x5346414f,  // OpenAFS
    0x6b414653,  // AFS
    0x73757245,  // Coda
    0x0bd00bd0,  // Lustre
    0x01161970,  // GFS2
    0x7461636f,  // OCFS2
    0x65735546,  // FUSE
    0x564c,      // NCP
    0x47504653,  // GPFS
    0x20030528,  // OrangeFS
    0x786f4256,  // VirtualBox shared folders
    0xbacbacbc,  // VMware shared folders
};

/// Makes the directory if it is not there. Whether it was: EEXIST is no error.
Result<void> make_directory(std::string const& path) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    Fd const parent(::open((path + "/..").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (parent) ::fsync(parent.get());
    return {};
  }
  if (errno == EEXIST) return {};
  return fail_errno(errno, path);
}

}  // namespace

/// Who lived when the kernel was asked about all of them, once.
struct Store::Census final : Liveness {
  Result<bool> alive(std::uint64_t session) override { return living.contains(session); }

  std::unordered_set<std::uint64_t> living;
  std::vector<std::uint64_t> dead;
};

Result<Store::Census> Store::census() const {
  auto const ids = sessions_.all();
  if (!ids) return ids.error();
  Census census;
  for (auto const id : *ids) {
    auto const alive = sessions_.alive(id);
    if (!alive) return alive.error();
    if (*alive)
      census.living.insert(id);
    else
      census.dead.push_back(id);
  }
  return census;
}

Result<void> check_file_system(std::string const& path, std::uint32_t type) {
  if (std::find(kNetworkFileSystems.begin(), kNetworkFileSystems.end(), type) == kNetworkFileSystems.end()) return {};
  return fail(errc::not_supported, path + " is on a network file system; a file: lock holds on one host only");
}

Result<Store> Store::open(std::string const& path) {
  auto const boot = boot_id();
  if (!boot) return boot.error();
  Store store;
  store.path_ = path;
  Fd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir && errno == ENOENT) {
    if (auto made = make_directory(path); !made) return made.error();
    dir = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  struct stat status {};
  struct statfs system {};
  if (!dir || ::fstat(dir.get(), &status) != 0 || ::fstatfs(dir.get(), &system) != 0) return fail_errno(errno, path);
  if (auto fine = check_file_system(path, static_cast<std::uint32_t>(system.f_type)); !fine) return fine.error();
  store.mode_ = status.st_mode & 02777U;
  store.group_ = status.st_gid;
  store.dir_ = KeptFd(std::move(dir));

  auto counter = Counter::open(store.dir_.get(), path, *boot, store.rights());
  if (!counter) return counter.error();
  store.counter_ = std::move(*counter);
  auto lines = store.subdirectory("lines");
  if (!lines) return lines.error();
  store.lines_ = std::move(*lines);
  auto sessions = store.subdirectory("sessions");
  if (!sessions) return sessions.error();
  store.sessions_ = Sessions(std::move(*sessions), path + "/sessions");
  return store;
}

Result<KeptFd> Store::subdirectory(char const* name) const {
  bool const made = ::mkdirat(dir_.get(), name, mode_) == 0;
  if (!made && errno != EEXIST) return fail_errno(errno, path_ + "/" + name);
  Fd fd(::openat(dir_.get(), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return fail_errno(errno, path_ + "/" + name);
  // Whoever made it may have been killed before this; only its owner can tell.
  struct stat status {};
  bool const complete = ::fstat(fd.get(), &status) == 0 && (status.st_mode & 0777U) == (mode_ & 0777U);
  if (made || (!complete && status.st_uid == ::geteuid())) Rights{mode_, group_}.give(fd.get());
  return KeptFd(std::move(fd));
}

Result<std::uint64_t> Store::settle(std::string_view boot) {
  auto const record = counter_.load();
  if (!record) return record.error();
  if (record->boot == boot) return record->directory;
  // Containers may each be shown a boot of their own. But no lock outlives a boot: where somebody lives, it is the
  // same.
  auto const who = census();
  if (!who) return who.error();
  if (!who->living.empty()) return record->directory;
  // Every session of that boot is dead, and what it wrote may be half on disk. The boot is noted last, so that who is
  // killed in between leaves the rest to the next.
  auto const lines = names_in(lines_.get(), path_ + "/lines");
  if (!lines) return lines.error();
  for (auto const& name : *lines)
    if (::unlinkat(lines_.get(), name.c_str(), 0) != 0) return fail_errno(errno, path_ + "/lines/" + name);
  for (auto const id : who->dead) sessions_.remove(id);
  if (auto noted = counter_.rebooted(boot); !noted) return noted.error();
  return record->directory;
}

Result<void> Store::sweep() {
  auto const files = names_in(dir_.get(), path_);
  if (!files) return files.error();
  for (auto const& name : *files)
    if (is_unfinished_counter(name)) ::unlinkat(dir_.get(), name.c_str(), 0);
  if (auto swept = sessions_.sweep(); !swept) return swept.error();
  auto who = census();
  if (!who) return who.error();
  if (who->dead.empty()) return {};
  auto const names = names_in(lines_.get(), path_ + "/lines");
  if (!names) return names.error();
  Line line;
  for (auto const& name : *names) {
    auto const opened = line.open(lines_.get(), path_, name, Line::Mode::existing);
    if (!opened) (void)line.unlink_if_empty();
    if (!opened || !*opened) continue;  // a broken line is for those who use it
    auto const lives = line.bury(*who);
    if (lives && !*lives) (void)line.unlink();
  }
  // Their FIFOs last: as long as one is there, whoever opens a session next does this again.
  for (auto const id : who->dead) sessions_.remove(id);
  return {};
}

bool Store::intact() const {
  return same_file(AT_FDCWD, path_.c_str(), dir_.get()) && same_file(dir_.get(), "counter", counter_.fd()) &&
         same_file(dir_.get(), "lines", lines_.get()) && same_file(dir_.get(), "sessions", sessions_.dir());
}

}  // namespace holdfast::detail::file
