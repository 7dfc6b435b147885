#include "tests/unit/file_fixture.hpp"

namespace holdfast::detail::file {
namespace {

class CounterTest : public ::testing::Test {
 protected:
  Result<Counter> open() { return Counter::open(dir_.get(), directory_.path(), kBoot, Rights{}); }
  std::string file() const { return directory_ / "counter"; }

  TemporaryDirectory directory_;
  Fd dir_{::open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
};

TEST_F(CounterTest, TicketsGrowAndGoOnAfterTheProcess) {
  std::uint64_t last = 0;
  for (int run = 0; run < 3; ++run) {
    auto counter = open().value();
    for (int i = 0; i < 1500; ++i) {
      auto const ticket = counter.take().value();
      EXPECT_TRUE(last == 0 || ticket == last + 1) << "no ticket is left out, and none given twice";
      last = ticket;
    }
  }
  EXPECT_EQ(files_in(directory_.path()), 1U) << "nothing temporary is left";
}

TEST_F(CounterTest, StartsAtTheWallClockSoThatANewDirectoryDoesNotGoBack) {
  auto const old = open().value().take().value();
  fs::remove(file());
  std::this_thread::sleep_for(1ms);
  EXPECT_GT(open().value().take().value(), old);
}

TEST_F(CounterTest, AfterARebootGoesOnWhereNoTicketCanHaveBeenGiven) {
  auto counter = open().value();
  for (int i = 0; i < 10; ++i) (void)counter.take().value();
  auto const before = counter.load().value();
  ASSERT_TRUE(counter.rebooted(kNextBoot));
  auto const after = counter.load().value();
  EXPECT_EQ(after.next, before.reserved);
  EXPECT_GT(after.reserved, after.next);
  EXPECT_EQ(after.directory, before.directory);
  EXPECT_EQ(after.boot, kNextBoot);
}

TEST_F(CounterTest, WhatIsDamagedIsRefusedAndNamed) {
  (void)open().value().take().value();
  auto const expect_corrupt = [&](char const* what) {
    auto counter = open().value();
    auto const ticket = counter.take();
    ASSERT_FALSE(ticket) << what;
    EXPECT_EQ(ticket.error(), errc::corrupt) << what;
    EXPECT_NE(ticket.error().message().find(file()), std::string::npos) << ticket.error().message();
  };
  auto const intact = open().value().load().value();
  for (std::size_t offset = 0; offset < sizeof intact; ++offset) {
    auto damaged = intact;
    reinterpret_cast<char*>(&damaged)[offset] ^= 0x10;
    write_file(file(), &damaged, sizeof damaged, 0);
    expect_corrupt("one bit");
  }
  write_file(file(), &intact, sizeof intact, 0);
  EXPECT_TRUE(open().value().take());
  for (auto const size : {std::size_t{0}, std::size_t{1}, sizeof intact - 1}) {
    fs::resize_file(file(), size);
    expect_corrupt("cut short");
  }
}

/// Somebody was killed, or the power went, in the middle of an update: the file is the new record up to some byte and
/// the old one from there on, or the other way round. Either is refused, or is not behind what was given.
TEST_F(CounterTest, AnUpdateThatWasTornIsNeverBehind) {
  auto counter = open().value();
  auto const tear = [&](CounterRecord const& old, CounterRecord const& now, std::uint64_t given) {
    int refused = 0;
    for (std::size_t cut = 0; cut <= sizeof old; ++cut) {
      for (bool const swapped : {false, true}) {
        auto torn = swapped ? now : old;
        std::memcpy(&torn, swapped ? &old : &now, cut);
        write_file(file(), &torn, sizeof torn, 0);
        auto const ticket = counter.take();
        if (ticket) {
          EXPECT_GT(*ticket, given) << cut;
        } else {
          EXPECT_EQ(ticket.error(), errc::corrupt) << cut;
          ++refused;
        }
      }
    }
    EXPECT_GT(refused, 4) << "some of these were torn indeed";
    write_file(file(), &now, sizeof now, 0);
  };
  // A ticket is given once its update is complete, so the last one given is that before the old record's next.
  auto old = counter.load().value();
  for (int i = 0; i < 3; ++i) {
    (void)counter.take().value();
    auto const now = counter.load().value();
    tear(old, now, old.next - 1);
    old = now;
  }
  auto at_the_end_of_a_block = old;
  while (at_the_end_of_a_block.next != at_the_end_of_a_block.reserved) {
    (void)counter.take().value();
    at_the_end_of_a_block = counter.load().value();
  }
  (void)counter.take().value();
  tear(at_the_end_of_a_block, counter.load().value(), at_the_end_of_a_block.next - 1);
  auto const before = counter.load().value();
  ASSERT_TRUE(counter.rebooted(kNextBoot));
  tear(before, counter.load().value(), before.next - 1);
}

TEST_F(CounterTest, MissingWhereThereIsAStoreIsNotARestart) {
  ASSERT_EQ(::mkdir((directory_ / "lines").c_str(), 0700), 0);
  auto const counter = open();
  ASSERT_FALSE(counter);
  EXPECT_EQ(counter.error(), errc::corrupt);
  EXPECT_NE(counter.error().message().find(file()), std::string::npos);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(CounterTest, ManyWhoMakeItAtOnceMakeOne) {
  std::vector<std::uint64_t> ids(8);
  std::vector<std::thread> threads;
  for (auto& id : ids) threads.emplace_back([&] { id = open().value().load().value().directory; });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::uint64_t>(ids.begin(), ids.end()).size(), 1U);
}

TEST_F(CounterTest, RunsOutWithAnError) {
  auto counter = open().value();
  auto record = counter.load().value();
  EXPECT_LT(record.next, Counter::kLast / 1000) << "at a million a second there is time for thousands of years";
  record.next = Counter::kLast - 1;
  record.reserved = Counter::kLast;
  boost::crc_32_type crc;
  crc.process_bytes(&record, offsetof(CounterRecord, crc));
  record.crc = crc.checksum();
  write_file(file(), &record, sizeof record, 0);
  EXPECT_EQ(counter.take().value(), Counter::kLast - 1);
  for (int i = 0; i < 2; ++i) {
    auto const ticket = counter.take();
    ASSERT_FALSE(ticket);
    EXPECT_EQ(ticket.error(), errc::unavailable);
    EXPECT_NE(ticket.error().message().find(file()), std::string::npos);
  }
}

}  // namespace
}  // namespace holdfast::detail::file
