#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "tests/file/process.hpp"

// What a directory can do to those who lock in it: be full, forbidden, read-only, taken away, or no directory at all.
// Each is an error that names the path; nothing is lost by it and nobody hangs.

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

/// A small file system in memory, on a directory; none if that is not allowed here.
class Mount {
 public:
  explicit Mount(std::string where, char const* options = "size=64k") : where_(std::move(where)) {
    fs::create_directories(where_);
    mounted_ = ::mount("holdfast-test", where_.c_str(), "tmpfs", 0, options) == 0;
    why_ = std::strerror(errno);
  }
  ~Mount() {
    if (mounted_) ::umount2(where_.c_str(), MNT_DETACH);
  }
  Mount(Mount const&) = delete;
  Mount& operator=(Mount const&) = delete;
  explicit operator bool() const { return mounted_; }
  std::string const& why() const { return why_; }
  bool read_only() const {
    return ::mount("holdfast-test", where_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  std::string where_;
  std::string why_;
  bool mounted_ = false;
};

/// Takes what is left.
void fill(std::string const& file) {
  int const fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  char const block[4096] = {};
  while (::write(fd, block, sizeof block) > 0) continue;
  EXPECT_EQ(errno, ENOSPC);
  ::close(fd);
}

TEST(Trouble, AFullDiskIsAnErrorThatLosesNothing) {
  Directory const directory;
  Mount const mount(directory / "small");
  if (!mount) GTEST_SKIP() << "cannot mount a tmpfs (" << mount.why() << "): a full disk is NOT tested";
  auto const path = directory / "small/locks";
  auto const client = Client::connect("file:" + path).value();
  auto held = client.lock("held").acquire().value();
  fill(directory / "small/ballast");
  auto const refused = client.lock("another").acquire_for(5s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::unavailable);
  EXPECT_EQ(refused.error().value(), ENOSPC);
  EXPECT_TRUE(contains(refused.error().message(), path + "/lines/another")) << refused.error().message();
  EXPECT_TRUE(held.valid());
  EXPECT_FALSE(held.lost().stop_requested());
  EXPECT_EQ(client.names().value(), std::vector<std::string>{"held"}) << "the failed one left nothing";
  EXPECT_TRUE(held.release()) << "giving back needs no space";
  auto const after = client.lock("held").acquire_for(5s);
  EXPECT_TRUE(after || after.error().value() == ENOSPC);
  fs::remove(directory / "small/ballast");
  auto const again = client.lock("another").acquire_for(5s);
  ASSERT_TRUE(again);
  EXPECT_GT(again->fence(), held.fence());
}

TEST(Trouble, AFullDiskRefusesANewDirectoryClearly) {
  Directory const directory;
  Mount const mount(directory / "small");
  if (!mount) GTEST_SKIP() << "cannot mount a tmpfs (" << mount.why() << "): a full disk is NOT tested";
  fill(directory / "small/ballast");
  auto const path = directory / "small/locks";
  auto const refused = Client::connect("file:" + path + "?connect_timeout=100ms");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::unavailable);
  EXPECT_TRUE(contains(refused.error().message(), path)) << refused.error().message();
  fs::remove(directory / "small/ballast");
  EXPECT_TRUE(Client::connect("file:" + path)) << "and nothing half made is in the way";
}

TEST(Trouble, AReadOnlyDirectoryIsDenied) {
  Directory const directory;
  Mount const mount(directory / "small");
  if (!mount) GTEST_SKIP() << "cannot mount a tmpfs (" << mount.why() << "): read-only is NOT tested";
  auto const path = directory / "small/locks";
  ASSERT_TRUE(Client::connect("file:" + path));
  ASSERT_TRUE(mount.read_only());
  auto const refused = Client::connect("file:" + path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::denied);
  EXPECT_TRUE(contains(refused.error().message(), path)) << refused.error().message();
}

constexpr char kNobody[] = "65534";

TEST(Trouble, AnotherUsersDirectoryIsDenied) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root: other users are NOT tested";
  Directory const directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  ASSERT_TRUE(Client::connect(directory.url()));
  Process closed({"client", directory.url(), kNobody});
  auto const answer = closed.hear();
  EXPECT_EQ(answer, "error access denied: " + directory.locks() + ": Permission denied");
  // Readable, but not to be written to.
  fs::permissions(directory.locks(), fs::perms(0755));
  fs::permissions(directory.locks() + "/counter", fs::perms(0644));
  Process readable({"client", directory.url(), kNobody});
  EXPECT_EQ(readable.hear(), "error access denied: " + directory.locks() + "/counter: Permission denied");
}

void shared_by_a_group(mode_t mode) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root: other users are NOT tested";
  Directory const directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(directory.locks().c_str(), 0700), 0);
  ASSERT_EQ(::chown(directory.locks().c_str(), 0, 65534), 0);
  ASSERT_EQ(::chmod(directory.locks().c_str(), mode), 0);
  auto ours = client_process(directory.url());  // with umask 077, as the other one
  ASSERT_EQ(ours.ask("acquire x").substr(0, 5), "held ");
  Process theirs({"client", directory.url(), kNobody});
  ASSERT_EQ(theirs.hear(), "ready");
  theirs.say("wait x");
  auto const observer = Client::connect(directory.url()).value();
  ASSERT_TRUE(eventually([&] { return observer.inspect("x").value().size() == 2; }));
  ASSERT_EQ(ours.ask("release x"), "fine");
  auto const first = granted(theirs.hear());
  ours.say("wait x");
  ASSERT_TRUE(eventually([&] { return observer.inspect("x").value().size() == 2; }));
  auto const rights = [&](std::string const& name) {
    struct stat status {};
    EXPECT_EQ(::stat((directory.locks() + name).c_str(), &status), 0);
    EXPECT_EQ(status.st_gid, 65534U) << name;
    return status.st_mode & 0777U;
  };
  EXPECT_EQ(rights("/counter"), 0660U);
  EXPECT_EQ(rights("/lines"), 0770U);
  EXPECT_EQ(rights("/sessions"), 0770U);
  EXPECT_EQ(rights("/lines/x"), 0660U);
  theirs.kill();
  EXPECT_GT(granted(ours.hear()).fence, first.fence);
}

TEST(Trouble, AGroupsDirectoryIsSharedWhateverTheUmask) { shared_by_a_group(02770); }

TEST(Trouble, AGroupsDirectoryNeedsNoSetGroupId) { shared_by_a_group(0770); }

TEST(Trouble, WhatAnotherUserLeftHalfMadeIsInNobodysWay) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root: other users are NOT tested";
  Directory const directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(directory.locks().c_str(), 0700), 0);
  ASSERT_EQ(::chmod(directory.locks().c_str(), 0777), 0);
  ASSERT_TRUE(Client::connect(directory.url()));
  // Killed between making each of these and giving it its rights.
  ASSERT_EQ(::mkfifo((directory.locks() + "/sessions/new.17").c_str(), 0600), 0);
  std::ofstream(directory.locks() + "/counter.0123.new") << "";
  std::ofstream(directory.locks() + "/lines/x") << "";
  std::ofstream(directory.locks() + "/lines/y") << "";
  for (auto const* name : {"/lines/x", "/lines/y"}) fs::permissions(directory.locks() + name, fs::perms(0600));
  Process other({"client", directory.url(), kNobody});
  ASSERT_EQ(other.hear(), "ready");
  EXPECT_EQ(other.ask("acquire x").substr(0, 5), "held ");
  EXPECT_EQ(files_in(directory.locks() + "/sessions"), 1U);
  EXPECT_EQ(files_in(directory.locks()), 3U);
}

/// Somebody is stopped, or slow, in the middle of changing something.
class Occupied {
 public:
  explicit Occupied(Directory const& directory)
      : fd_(::open((directory.locks() + "/counter").c_str(), O_RDWR | O_CLOEXEC)) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_len = 1;
    EXPECT_EQ(::fcntl(fd_, F_OFD_SETLK, &lock), 0);
  }
  ~Occupied() { ::close(fd_); }
  Occupied(Occupied const&) = delete;
  Occupied& operator=(Occupied const&) = delete;

 private:
  int fd_;
};

TEST(Trouble, ADirectoryThatStaysLockedHangsNobodyPastItsDeadline) {
  Directory const directory;
  auto client = Client::connect(directory.url("request_timeout=100ms&close_timeout=100ms")).value();
  auto hold = client.lock("x").acquire().value();
  std::optional<Occupied> occupied(directory);
  EXPECT_EQ(client.lock("y").acquire_for(50ms).error(), errc::unavailable);
  EXPECT_EQ(client.lock("y").try_acquire().error(), errc::unavailable);
  EXPECT_EQ(client.inspect("x").error(), errc::unavailable);
  EXPECT_EQ(hold.release().error(), errc::unknown_outcome);
  occupied.reset();
  EXPECT_TRUE(eventually([&] { return client.names().has_value() && client.names()->empty(); })) << "clean-up goes on";
  EXPECT_TRUE(client.lock("y").acquire_for(5s));
  auto const held = client.lock("z").acquire().value();
  occupied.emplace(directory);
  EXPECT_EQ(client.close().error(), errc::unknown_outcome);
  occupied.reset();
  EXPECT_TRUE(Client::connect(directory.url()).value().lock("z").acquire_for(5s))
      << "though the handles are still here";
}

TEST(Trouble, ACloseThatHasToWaitForTheMutexEndsCleanly) {
  Directory const directory;
  for (int i = 0; i < 20; ++i) {
    auto client = Client::connect(directory.url()).value();
    auto const hold = client.lock("x").acquire().value();
    std::optional<Occupied> occupied(directory);
    std::thread soon([&] {
      std::this_thread::sleep_for(5ms);
      occupied.reset();
    });
    EXPECT_TRUE(client.close());
    soon.join();
  }
  EXPECT_EQ(files_in(directory.locks() + "/lines"), 0U);
}

TEST(Trouble, APathThatIsNoDirectoryIsNamed) {
  Directory const directory;
  std::ofstream(directory.locks()) << "a file\n";
  auto const refused = Client::connect(directory.url("connect_timeout=100ms"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::unavailable);
  EXPECT_TRUE(contains(refused.error().message(), directory.locks() + ": Not a directory"))
      << refused.error().message();
  auto const below = Client::connect("file:" + directory.path() + "/no/such/place?connect_timeout=100ms");
  ASSERT_FALSE(below);
  EXPECT_TRUE(contains(below.error().message(), "/no/such/place: No such file or directory"))
      << below.error().message();
}

TEST(Trouble, ARelativePathMeansWhereTheProgramWasThen) {
  Directory const directory;
  auto const before = fs::current_path();
  fs::current_path(directory.path());
  auto const client = Client::connect("file:locks?ttl=300ms");
  fs::current_path(before);
  ASSERT_TRUE(client) << client.error().message();
  auto const hold = client->lock("x").acquire().value();
  EXPECT_TRUE(fs::exists(directory.locks() + "/lines/x"));
  auto const absolute = Client::connect(directory.url()).value();
  EXPECT_EQ(absolute.lock("x").try_acquire().error(), errc::busy);
  std::this_thread::sleep_for(300ms);  // three beats
  EXPECT_TRUE(hold.valid());
}

/// What happens to a holder and a waiter when the directory goes, by removal or renaming.
void taken_away(std::function<void(Directory const&)> const& take) {
  Directory const directory;
  auto const client = Client::connect(directory.url("ttl=300ms")).value();
  auto hold = client.lock("x").acquire().value();
  auto const old = hold.fence();
  auto const lost = hold.lost();
  auto waiting = client.lock("x");
  std::atomic<bool> granted = false;
  waiting.async_acquire({}, [&](error_code ec, Hold next) {
    EXPECT_FALSE(ec) << ec.message();
    EXPECT_GT(next.fence(), old);
    granted = true;
  });
  take(directory);
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); })) << "the holder is told";
  EXPECT_FALSE(hold.valid());
  EXPECT_EQ(hold.release().error(), errc::lost);
  EXPECT_TRUE(eventually([&] { return granted.load(); })) << "the directory is made anew, and the waiter stands in it";
  EXPECT_TRUE(eventually([&] { return client.names().has_value() && client.names()->empty(); }));
  auto const again = client.lock("x").acquire_for(5s);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_GT(again->fence(), old) << "though its counter is a new one";
  auto const other = Client::connect(directory.url()).value();
  EXPECT_EQ(other.lock("x").try_acquire().error(), errc::busy);
}

TEST(Trouble, ADirectoryRemovedUnderneathIsALossAndIsMadeAnew) {
  taken_away([](Directory const& directory) { fs::remove_all(directory.locks()); });
}

TEST(Trouble, ADirectoryRenamedUnderneathIsALossAndIsMadeAnew) {
  taken_away([](Directory const& directory) { fs::rename(directory.locks(), directory / "elsewhere"); });
}

TEST(Trouble, ADirectoryReplacedByAnotherIsALoss) {
  taken_away([](Directory const& directory) {
    fs::rename(directory.locks(), directory / "elsewhere");
    (void)Client::connect(directory.url()).value().lock("y").acquire().value();
  });
}

TEST(Trouble, ADirectoryThatDoesNotComeBackIsUnavailableByTheDeadline) {
  Directory const directory;
  fs::create_directory(directory / "parent");
  auto const path = directory / "parent/locks";
  auto const client = Client::connect("file:" + path + "?ttl=300ms").value();
  auto const hold = client.lock("x").acquire().value();
  fs::remove_all(directory / "parent");
  EXPECT_TRUE(eventually([&] { return hold.lost().stop_requested(); }));
  ASSERT_TRUE(eventually([&] {
    auto const error = client.lock("x").acquire_for(20ms).error();
    return error == errc::unavailable && contains(error.message(), path + ": No such file or directory");
  }));
  fs::create_directory(directory / "parent");
  EXPECT_TRUE(client.lock("x").acquire_for(10s));
}

}  // namespace
}  // namespace holdfast::test
