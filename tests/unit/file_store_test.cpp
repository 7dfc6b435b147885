#include "tests/unit/file_fixture.hpp"

namespace holdfast::detail::file {
namespace {

// ---- a full disk

TEST(FileStore, AFullDiskIsAnErrorAndLeavesTheLineAsItWas) {
  TemporaryDirectory const directory;
  auto const point = directory / "small";
  ASSERT_EQ(::mkdir(point.c_str(), 0700), 0);
  if (::mount("holdfast-test", point.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount a small tmpfs (" << std::strerror(errno) << "): a full disk is NOT tested";
  {
    auto store = Store::open(point + "/locks").value();
    FakeSessions sessions;
    Line line;
    std::uint64_t ticket = 0;
    std::vector<EntryRef> refs;
    error_code error;
    while (!error && ticket < 1000) {
      ASSERT_TRUE(line.open(store.lines(), store.path(), "a", Line::Mode::create).value());
      ASSERT_TRUE(line.ahead(line.end(), kExclusive, sessions));
      Record record{};
      record.state = Record::kLive;
      record.blockers = 0xff;
      record.permits = 1;
      record.waiting = 1;
      record.ticket = ++ticket;
      record.session = ticket;
      auto const ref = line.append(record);
      if (ref)
        refs.push_back(*ref);
      else
        error = ref.error();
    }
    EXPECT_EQ(error, errc::unavailable);
    EXPECT_EQ(error.value(), ENOSPC);
    EXPECT_NE(error.message().find(point), std::string::npos) << error.message();
    ASSERT_GT(refs.size(), 10U);
    EXPECT_EQ(fs::file_size(point + "/locks/lines/a"), (refs.size() + 1) * kRecordSize);
    for (auto const& ref : refs) {
      ASSERT_TRUE(line.open(store.lines(), store.path(), "a", Line::Mode::existing).value());
      ASSERT_TRUE(line.remove(ref, true, sessions));
    }
    EXPECT_EQ(files_in(point + "/locks/lines"), 0U);
    EXPECT_TRUE(store.counter().take());
  }
  EXPECT_EQ(::umount(point.c_str()), 0);
}

// ---- the directory

TEST(FileStore, RefusesNetworkFileSystems) {
  for (auto const type : {0x6969U, 0xfe534d42U, 0x65735546U, 0x01021997U}) {
    auto const refused = check_file_system("/srv/locks", type);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), errc::not_supported);
    EXPECT_NE(refused.error().message().find("/srv/locks is on a network file system"), std::string::npos);
  }
  for (auto const type : {0xef53U, 0x01021994U, 0x58465342U, 0x9123683eU}) EXPECT_TRUE(check_file_system("/", type));
}

TEST(FileStore, ANewDirectoryIsForThisUserAndOneThatIsThereKeepsItsRights) {
  TemporaryDirectory const directory;
  auto const mode = [](std::string const& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777U : 0;
  };
  (void)Store::open(directory / "new").value();
  EXPECT_EQ(mode(directory / "new"), 0700U);
  EXPECT_EQ(mode(directory / "new/counter"), 0600U);
  EXPECT_EQ(mode(directory / "new/lines"), 0700U);
  ASSERT_EQ(::mkdir((directory / "team").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((directory / "team").c_str(), 0770), 0);
  auto store = Store::open(directory / "team").value();
  EXPECT_EQ(mode(directory / "team/counter"), 0660U);
  EXPECT_EQ(mode(directory / "team/sessions"), 0770U);
  auto const fifo = store.sessions().create(7, store.rights()).value();
  EXPECT_EQ(mode(directory / "team/sessions/7"), 0660U);
}

TEST(FileStore, AParentThatIsMissingIsNamed) {
  TemporaryDirectory const directory;
  auto const store = Store::open(directory / "no/locks");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error(), errc::unavailable);
  EXPECT_NE(store.error().message().find(directory / "no/locks"), std::string::npos);
}

TEST(FileStore, AnotherBootEmptiesTheDirectoryAndKeepsTheTicketsGrowing) {
  TemporaryDirectory const directory;
  auto store = Store::open(directory.path()).value();
  auto const id = store.settle(boot_id().value()).value();
  auto const ticket = store.counter().take().value();
  auto fifo = store.sessions().create(ticket, Rights{}).value();
  Fd(::openat(store.lines(), "a", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)).reset();
  EXPECT_EQ(store.settle(boot_id().value()).value(), id);
  EXPECT_EQ(files_in(directory / "lines"), 1U) << "the same boot";
  EXPECT_EQ(store.settle(kNextBoot).value(), id);
  EXPECT_EQ(files_in(directory / "lines"), 1U) << "somebody lives: a container that is shown another boot";
  EXPECT_EQ(store.counter().take().value(), ticket + 1);
  fifo.reset();
  EXPECT_EQ(store.settle(kNextBoot).value(), id);
  EXPECT_EQ(files_in(directory / "lines"), 0U);
  EXPECT_EQ(files_in(directory / "sessions"), 0U);
  EXPECT_GT(store.counter().take().value(), ticket + 2);
}

// ---- sessions

TEST(FileSessions, ASessionLivesAsLongAsItsProcess) {
  TemporaryDirectory const directory;
  auto store = Store::open(directory.path()).value();
  Child child([&] {
    auto const own = Store::open(directory.path()).value();
    static auto const kept = own.sessions().create(5, Rights{}).value();
  });
  EXPECT_TRUE(store.sessions().alive(5).value());
  EXPECT_FALSE(store.sessions().alive(6).value());
  child.kill();
  EXPECT_FALSE(store.sessions().alive(5).value());
  EXPECT_EQ(store.sessions().all().value().size(), 1U);
  ASSERT_TRUE(store.sweep());
  EXPECT_EQ(store.sessions().all().value().size(), 0U);
}

TEST(FileSessions, AForkedChildDoesNotKeepTheSession) {
  TemporaryDirectory const directory;
  auto const store = Store::open(directory.path()).value();
  auto fifo = store.sessions().create(5, Rights{}).value();
  Child const child([] {});
  fifo.reset();
  EXPECT_FALSE(store.sessions().alive(5).value());
}

TEST(FileSessions, BellsArriveInOrderAndAFullBellIsNoticed) {
  TemporaryDirectory const directory;
  auto const store = Store::open(directory.path()).value();
  auto const fifo = store.sessions().create(5, Rights{}).value();
  std::vector<Bell> bells;
  EXPECT_TRUE(drain(fifo.get(), bells));
  EXPECT_TRUE(bells.empty());
  store.sessions().ring(5, Bell{17, true}.encode());
  store.sessions().ring(5, Bell{18, false}.encode());
  store.sessions().ring(6, Bell{19, false}.encode());  // nobody there
  EXPECT_TRUE(drain(fifo.get(), bells));
  ASSERT_EQ(bells.size(), 2U);
  EXPECT_EQ(bells[0].ticket, 17U);
  EXPECT_TRUE(bells[0].nobody_ahead);
  EXPECT_EQ(bells[1].ticket, 18U);
  EXPECT_FALSE(bells[1].nobody_ahead);

  for (int capacity : {::fcntl(fifo.get(), F_GETPIPE_SZ), ::fcntl(fifo.get(), F_SETPIPE_SZ, 4096)}) {
    ASSERT_GT(capacity, 0);
    for (int i = 0; i < capacity / 8 + 10; ++i) store.sessions().ring(5, Bell{1, false}.encode());
    EXPECT_FALSE(drain(fifo.get(), bells));
    EXPECT_TRUE(drain(fifo.get(), bells)) << "and only once";
  }
  ASSERT_EQ(::write(fifo.get(), "abc", 3), 3);
  EXPECT_FALSE(drain(fifo.get(), bells)) << "rubbish may hide a bell";
}

}  // namespace
}  // namespace holdfast::detail::file
