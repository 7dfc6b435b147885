#include "tests/unit/file_host.hpp"

namespace holdfast::detail::file {
namespace {

TEST(FileBackend, SomebodyStoppedInTheMutexDoesNotHangUsAndOrderIsKept) {
  TemporaryDirectory const directory;
  TestHost host(directory / "locks");
  ASSERT_TRUE(host.start());
  Fd const counter(::open((directory / "locks/counter").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(try_lock(counter.get()));
  std::vector<Joined> joined;
  auto const note = [&](Result<Joined> reply) { joined.push_back(reply.value()); };
  auto const begin = BootClock::now();
  for (int i = 0; i < 3; ++i) host.backend->join({"x", Kind::lock, kExclusive, "", false}, note);
  EXPECT_LT(BootClock::now() - begin, 1s);
  EXPECT_FALSE(host.until([&] { return !joined.empty(); }, 100ms));
  unlock(counter.get());
  EXPECT_TRUE(host.until([&] { return joined.size() == 3; }, 1s));
  EXPECT_LT(joined[0].self.number, joined[1].self.number);
  EXPECT_LT(joined[1].self.number, joined[2].self.number);
}

TEST(FileBackend, ADirectoryTakenAwayIsALossAndANewSessionFollows) {
  TemporaryDirectory const directory;
  TestHost host(directory / "locks");
  ASSERT_TRUE(host.start());
  auto const before = host.join("x").value();
  auto const place = host.session->place;
  fs::remove_all(directory / "locks");
  ASSERT_TRUE(host.until([&] { return host.losses == 1; }));
  host.session.reset();
  ASSERT_TRUE(host.until([&] { return host.session.has_value(); }));
  EXPECT_NE(host.session->place, place);
  auto const after = host.join("x").value();
  EXPECT_GT(after.self.number, before.self.number);
  EXPECT_FALSE(host.look("x", before.self).value());
}

TEST(FileBackend, AJoinIntoADirectoryTakenAwayIsLostAtOnce) {
  TemporaryDirectory const directory;
  TestHost host(directory / "locks", 600s);
  ASSERT_TRUE(host.start());
  fs::remove_all(directory / "locks");
  EXPECT_EQ(host.join("x").error(), errc::lost);
  EXPECT_TRUE(host.until([&] { return host.losses == 1; }));
}

TEST(FileBackend, AnEntryRemovedBehindItsOwnersBackIsReported) {
  TemporaryDirectory const directory;
  TestHost host(directory / "locks");
  ASSERT_TRUE(host.start());
  auto const x = host.join("x").value().self;
  auto const y = host.join("y").value().self;
  fs::remove(directory / "locks/lines/x");
  ASSERT_TRUE(host.until([&] { return !host.removals.empty(); }));
  EXPECT_EQ(host.removals.at(0), (std::pair<std::string, EntryRef>{"x", x}));
  host.until([] { return false; }, 250ms);
  EXPECT_EQ(host.removals.size(), 1U);
  EXPECT_EQ(host.losses, 0);
  EXPECT_TRUE(host.check("y", y).value());
}

TEST(FileBackend, ASessionRemovedBehindItsOwnersBackIsLost) {
  TemporaryDirectory const directory;
  TestHost host(directory / "locks");
  ASSERT_TRUE(host.start());
  for (auto const& entry : fs::directory_iterator(directory / "locks/sessions")) fs::remove(entry.path());
  EXPECT_TRUE(host.until([&] { return host.losses == 1; }));
}

TEST(FileBackend, ADamagedCounterIsReportedAndTriedAgain) {
  TemporaryDirectory const directory;
  {
    TestHost host(directory / "locks");
    ASSERT_TRUE(host.start());
  }
  auto const counter = directory / "locks/counter";
  fs::copy_file(counter, directory / "good");
  fs::resize_file(counter, 3);
  TestHost host(directory / "locks");
  EXPECT_FALSE(host.start());
  EXPECT_EQ(host.failure, errc::corrupt);
  EXPECT_NE(host.failure.message().find(counter), std::string::npos) << host.failure.message();
  fs::copy_file(directory / "good", counter, fs::copy_options::overwrite_existing);
  EXPECT_TRUE(host.until([&] { return host.session.has_value(); })) << "an operator may mend it";
}

TEST(FileBackend, VerbsWaitForTheFirstSession) {
  TemporaryDirectory const directory;
  TestHost host(directory / "later/locks");
  EXPECT_FALSE(host.start());
  EXPECT_EQ(host.failure, errc::unavailable);
  std::optional<Result<Joined>> joined;
  host.backend->join({"x", Kind::lock, kExclusive, "", false}, [&](Result<Joined> reply) { joined = reply; });
  EXPECT_FALSE(host.until([&] { return joined.has_value(); }, 50ms));
  ASSERT_EQ(::mkdir((directory / "later").c_str(), 0700), 0);
  ASSERT_TRUE(host.until([&] { return joined.has_value(); }));
  EXPECT_TRUE(*joined);
}

/// Many processes that lock, add one to a number in a file without any atomicity, and unlock, while some are killed.
TEST(FileBackend, ContendingProcessesExcludeEachOtherWhileSomeAreKilled) {
  TemporaryDirectory const directory;
  auto const root = directory / "locks";
  auto const total = directory / "total";
  constexpr int kRounds = 500;
  auto const work = [&](bool for_ever) {
    TestHost host(root, 600s);
    if (!host.start()) ::_exit(2);
    Fd const fd(::open(total.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    for (int i = 0; for_ever || i < kRounds; ++i) {
      auto const joined = host.join("x").value();
      auto ahead = joined.ahead;
      while (!ahead.nearest.empty()) {
        Told told;
        host.backend->await_gone("x", ahead.nearest[0], told.callback());
        if (!host.until([&] { return told.nobody_ahead.has_value(); }, 30s)) ::_exit(3);
        if (*told.nobody_ahead) break;
        ahead = host.look("x", joined.self).value().value();
      }
      // The fence of the last one who was here, then our own; a killed one is here without adding.
      std::uint64_t state[2] = {};
      (void)read_at(fd.get(), state, sizeof state, 0);
      if (state[1] >= joined.self.number) ::_exit(4);
      state[1] = joined.self.number;
      if (!for_ever) ++state[0];
      (void)write_at(fd.get(), state, sizeof state, 0);
      if (!host.leave("x", joined.self)) ::_exit(5);
    }
    host.stop();
    ::_exit(0);
  };
  std::vector<pid_t> workers;
  for (int i = 0; i < 4; ++i) {
    auto const pid = ::fork();
    if (pid == 0) work(false);
    workers.push_back(pid);
  }
  std::mt19937 random(1);
  int kills = 0;
  while (!workers.empty()) {
    auto const victim = ::fork();
    if (victim == 0) work(true);
    std::this_thread::sleep_for(std::chrono::microseconds(3000 + random() % 20000));
    ::kill(victim, SIGKILL);
    ::waitpid(victim, nullptr, 0);
    ++kills;
    std::erase_if(workers, [](pid_t pid) {
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) != pid) return false;
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
      return true;
    });
  }
  std::uint64_t state[2] = {};
  Fd const fd(::open(total.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(read_at(fd.get(), state, sizeof state, 0), static_cast<ssize_t>(sizeof state));
  EXPECT_EQ(state[0], 4U * kRounds);
  EXPECT_GT(kills, 0);
  TestHost host(root);
  ASSERT_TRUE(host.start());
  EXPECT_EQ(files_in(root + "/lines"), 0U);
  EXPECT_EQ(files_in(root + "/sessions"), 1U);
}

}  // namespace
}  // namespace holdfast::detail::file
