#include "tests/unit/file_host.hpp"

namespace holdfast::detail::file {
namespace {

TEST(FileBackend, HandsOverBetweenClientsWithOneBell) {
  TemporaryDirectory const directory;
  TestHost a(directory / "locks");
  TestHost b(directory / "locks");
  ASSERT_TRUE(a.start());
  ASSERT_TRUE(b.start());
  EXPECT_EQ(a.session->place, b.session->place);
  EXPECT_FALSE(a.session->ttl);
  EntryRef mine = a.join("x").value().self;
  for (int i = 0; i < 200; ++i) {
    auto const joined = b.join("x").value();
    ASSERT_EQ(joined.ahead.nearest.size(), 1U);
    EXPECT_EQ(joined.ahead.nearest[0], mine);
    EXPECT_FALSE(joined.ahead.more);
    EXPECT_GT(joined.self.number, mine.number);
    Told told;
    b.backend->await_gone("x", joined.ahead.nearest[0], told.callback());
    b.turn();
    EXPECT_FALSE(told.nobody_ahead);
    ASSERT_TRUE(a.leave("x", mine));
    ASSERT_TRUE(b.until([&] { return told.nobody_ahead.has_value(); }, 90ms)) << "by the bell, not by the beat";
    EXPECT_TRUE(*told.nobody_ahead);
    auto const next = a.join("x").value();
    Told again;
    a.backend->await_gone("x", next.ahead.nearest.at(0), again.callback());
    ASSERT_TRUE(b.leave("x", joined.self));
    ASSERT_TRUE(a.until([&] { return again.nobody_ahead.has_value(); }, 90ms));
    mine = next.self;
  }
  ASSERT_TRUE(a.leave("x", mine));
  EXPECT_EQ(files_in(directory / "locks/lines"), 0U);
}

TEST(FileBackend, TryLeavesNothing) {
  TemporaryDirectory const directory;
  TestHost a(directory / "locks");
  TestHost b(directory / "locks");
  ASSERT_TRUE(a.start());
  ASSERT_TRUE(b.start());
  auto const held = a.join("x", true).value();
  EXPECT_EQ(b.join("x", true).error(), errc::busy);
  EXPECT_EQ(b.list("x").value().size(), 1U);
  ASSERT_TRUE(a.leave("x", held.self));
  EXPECT_TRUE(b.join("x", true));
}

TEST(FileBackend, ListNamesAndCheck) {
  TemporaryDirectory const directory;
  TestHost a(directory / "locks");
  TestHost b(directory / "locks");
  ASSERT_TRUE(a.start());
  ASSERT_TRUE(b.start());
  auto const x = a.join("x").value().self;
  auto const y = b.join("x").value().self;
  auto const entries = b.list("x").value();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].ref, x);
  EXPECT_EQ(entries[1].ref, y);
  EXPECT_EQ(entries[0].label, "label");
  EXPECT_LT(std::chrono::system_clock::now() - entries[0].since.value(), 10s);
  EXPECT_EQ(b.names().value(), std::vector<std::string>{"x"});
  EXPECT_TRUE(b.check("x", x).value());
  EXPECT_FALSE(b.check("y", x).value());
  EXPECT_FALSE(b.check("x", EntryRef{x.key, x.number + 1}).value());
  ASSERT_TRUE(a.leave("x", x));
  EXPECT_FALSE(b.check("x", x).value());
  ASSERT_TRUE(a.leave("x", x)) << "twice does no harm";
  EXPECT_EQ(a.list("nobody").value().size(), 0U);
}

TEST(FileBackend, NobodyRemovesAnothersEntry) {
  TemporaryDirectory const directory;
  TestHost a(directory / "locks");
  TestHost b(directory / "locks");
  ASSERT_TRUE(a.start());
  ASSERT_TRUE(b.start());
  auto const old = a.join("x").value().self;
  ASSERT_TRUE(a.leave("x", old));
  auto const mine = b.join("x").value().self;
  EXPECT_EQ(from_key(old.key)->offset, from_key(mine.key)->offset);
  ASSERT_TRUE(a.leave("x", old));
  EXPECT_TRUE(a.check("x", mine).value());
}

/// Holds a lock in a process of its own; optionally with a child that outlives it and does not exec.
Child holder(std::string const& root, std::string const& line, int pid_pipe = -1) {
  return Child([=] {
    static auto* host = new TestHost(root);
    if (!host->start() || !host->join(line)) ::_exit(1);
    if (pid_pipe < 0) return;
    auto const grandchild = ::fork();
    if (grandchild == 0)
      for (;;) ::pause();
    (void)!::write(pid_pipe, &grandchild, sizeof grandchild);
  });
}

TEST(FileBackend, AKilledHolderIsNoticedAtOnce) {
  TemporaryDirectory const directory;
  for (int i = 0; i < 30; ++i) {
    TestHost host(directory / "locks", 600s);  // no beat in this test
    ASSERT_TRUE(host.start());
    auto child = holder(directory / "locks", "x");
    auto const joined = host.join("x").value();
    ASSERT_EQ(joined.ahead.nearest.size(), 1U);
    Told told;
    host.backend->await_gone("x", joined.ahead.nearest[0], told.callback());
    host.turn();
    EXPECT_FALSE(told.nobody_ahead);
    child.kill();
    ASSERT_TRUE(host.until([&] { return told.nobody_ahead.has_value(); }, 5s));
    EXPECT_FALSE(*told.nobody_ahead);
    EXPECT_TRUE(host.look("x", joined.self).value()->nearest.empty());
    EXPECT_EQ(host.list("x").value().size(), 1U);
    ASSERT_TRUE(host.leave("x", joined.self));
    EXPECT_EQ(files_in(directory / "locks/lines"), 0U);
  }
}

TEST(FileBackend, AHolderKilledBetweenReplyAndWatchIsNoticed) {
  TemporaryDirectory const directory;
  TestHost host(directory / "locks", 600s);
  ASSERT_TRUE(host.start());
  auto child = holder(directory / "locks", "x");
  auto const joined = host.join("x").value();
  child.kill();
  Told told;
  host.backend->await_gone("x", joined.ahead.nearest.at(0), told.callback());
  EXPECT_FALSE(told.nobody_ahead) << "never inside the call";
  ASSERT_TRUE(host.until([&] { return told.nobody_ahead.has_value(); }, 5s));
}

TEST(FileBackend, AWatchedHolderThatHasJustDiedIsNotBelievedToLive) {
  TemporaryDirectory const directory;
  TestHost host(directory / "locks", 600s);
  ASSERT_TRUE(host.start());
  auto child = holder(directory / "locks", "x");
  auto const joined = host.join("x").value();
  Told told;
  auto const watch = host.backend->await_gone("x", joined.ahead.nearest.at(0), told.callback());
  host.backend->forget(watch);
  ASSERT_TRUE(host.leave("x", joined.self, false));
  child.kill();  // its hang-up is there, but nobody has read it yet
  EXPECT_TRUE(host.join("x", true));
}

TEST(FileBackend, AStrayWriterThatHidesTheHangUpCostsOneBeat) {
  TemporaryDirectory const directory;
  TestHost host(directory / "locks", 300ms);
  ASSERT_TRUE(host.start());
  auto child = holder(directory / "locks", "x");
  auto const joined = host.join("x").value();
  auto const& ahead = joined.ahead.nearest.at(0);
  auto const fifo = directory / "locks/sessions/" + std::to_string(from_key(ahead.key)->session);
  Fd const ringer(::open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));  // as if stopped while ringing
  ASSERT_TRUE(ringer);
  Told told;
  host.backend->await_gone("x", ahead, told.callback());
  child.kill();
  ASSERT_TRUE(host.until([&] { return told.nobody_ahead.has_value(); }, 2s));
  EXPECT_TRUE(host.look("x", joined.self).value()->nearest.empty());
}

TEST(FileBackend, ALockedCounterIsReportedWhileOpening) {
  TemporaryDirectory const directory;
  { (void)Store::open(directory / "locks").value(); }
  Fd const counter(::open((directory / "locks/counter").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(try_lock(counter.get()));
  TestHost host(directory / "locks");
  EXPECT_FALSE(host.start());
  EXPECT_EQ(host.failure, errc::unavailable);
  EXPECT_NE(host.failure.message().find(directory / "locks/counter"), std::string::npos);
  unlock(counter.get());
  EXPECT_TRUE(host.until([&] { return host.session.has_value(); }));
}

TEST(FileBackend, AChildOfTheHolderThatDoesNotExecKeepsNothing) {
  TemporaryDirectory const directory;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  TestHost host(directory / "locks", 600s);
  ASSERT_TRUE(host.start());
  auto child = holder(directory / "locks", "x", ends[1]);
  pid_t grandchild = 0;
  ASSERT_EQ(::read(ends[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  auto const joined = host.join("x").value();
  Told told;
  host.backend->await_gone("x", joined.ahead.nearest.at(0), told.callback());
  child.kill();
  EXPECT_TRUE(host.until([&] { return told.nobody_ahead.has_value(); }, 5s));
  EXPECT_TRUE(host.look("x", joined.self).value()->nearest.empty());
  ::kill(grandchild, SIGKILL);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(FileBackend, WhatDeadClientsLeftIsSweptByTheNext) {
  TemporaryDirectory const directory;
  {
    auto first = holder(directory / "locks", "x");
    auto second = holder(directory / "locks", "y");
  }
  EXPECT_EQ(files_in(directory / "locks/sessions"), 2U);
  TestHost host(directory / "locks");
  ASSERT_TRUE(host.start());
  EXPECT_EQ(files_in(directory / "locks/sessions"), 1U);
  EXPECT_EQ(files_in(directory / "locks/lines"), 0U);
}

TEST(FileBackend, StopHandsOverAndLeavesNothing) {
  TemporaryDirectory const directory;
  TestHost a(directory / "locks", 600s);
  TestHost b(directory / "locks", 600s);
  ASSERT_TRUE(a.start());
  ASSERT_TRUE(b.start());
  (void)a.join("x").value();
  (void)a.join("y").value();
  auto const waiter = b.join("x").value();
  Told told;
  b.backend->await_gone("x", waiter.ahead.nearest.at(0), told.callback());
  a.stop();
  EXPECT_TRUE(b.until([&] { return told.nobody_ahead.has_value(); }));
  EXPECT_EQ(a.join("x").error(), errc::lost);
  b.stop();
  EXPECT_EQ(files_in(directory / "locks/lines"), 0U);
  EXPECT_EQ(files_in(directory / "locks/sessions"), 0U);
}

TEST(FileBackend, AForgottenWatchIsSilent) {
  TemporaryDirectory const directory;
  TestHost a(directory / "locks", 600s);
  TestHost b(directory / "locks", 600s);
  ASSERT_TRUE(a.start());
  ASSERT_TRUE(b.start());
  auto const held = a.join("x").value();
  auto const waiter = b.join("x").value();
  Told told;
  Told kept;
  auto const watch = b.backend->await_gone("x", held.self, told.callback());
  b.backend->await_gone("x", held.self, kept.callback());
  b.backend->forget(watch);
  ASSERT_TRUE(a.leave("x", held.self));
  EXPECT_TRUE(b.until([&] { return kept.nobody_ahead.has_value(); }));
  EXPECT_FALSE(told.nobody_ahead);
  ASSERT_TRUE(b.leave("x", waiter.self));
}

TEST(FileBackend, AFullBellForgetsNobody) {
  TemporaryDirectory const directory;
  TestHost a(directory / "locks", 600s);
  TestHost b(directory / "locks", 600s);
  ASSERT_TRUE(a.start());
  ASSERT_TRUE(b.start());
  auto const held = a.join("x").value();
  auto const waiter = b.join("x").value();
  Told told;
  b.backend->await_gone("x", held.self, told.callback());
  Sessions const sessions(KeptFd(Fd(::open((directory / "locks/sessions").c_str(), O_RDONLY | O_CLOEXEC))), "");
  auto const id = from_key(waiter.self.key)->session;
  for (int i = 0; i < 9000; ++i) sessions.ring(id, Bell{1, false}.encode());
  ASSERT_TRUE(a.leave("x", held.self));  // this bell finds no room
  EXPECT_TRUE(b.until([&] { return told.nobody_ahead.has_value(); }));
}

}  // namespace
}  // namespace holdfast::detail::file
