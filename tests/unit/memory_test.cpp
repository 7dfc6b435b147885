#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <holdfast/holdfast.hpp>
#include <holdfast/memory.hpp>
#include <optional>
#include <thread>

#include "tests/conformance/place.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using test::eventually;

constexpr auto kTtl = 400ms;

/// A `memory:` service of its own for each test, with a short lease.
class Memory : public ::testing::Test {
 protected:
  Client connect(std::string const& more = "") const {
    return Client::connect("memory:" + name_ + "?ttl=400ms" + more).value();
  }
  ~Memory() override { memory::set_outage(name_, false); }

  std::string const name_ = ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Memory, LossIsToldByItselfBeforeValidityEndsThoughNothingAnswers) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  std::promise<bool> valid_when_told;
  std::stop_callback const told(hold.lost(), [&] { valid_when_told.set_value(hold.valid()); });
  memory::set_outage(name_, true);
  auto told_in_time = valid_when_told.get_future();
  ASSERT_EQ(told_in_time.wait_for(5s), std::future_status::ready);
  EXPECT_TRUE(told_in_time.get()) << "lost() fires a tenth of the TTL before valid() turns false";
  EXPECT_TRUE(eventually([&] { return !hold.valid(); }, 5s));
  EXPECT_EQ(hold.valid_for(), 0ns);
  EXPECT_EQ(hold.release().error(), errc::lost);
}

TEST_F(Memory, AMarginOfOnesOwnFiresEarlier) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  std::atomic<std::int64_t> early{0};
  std::stop_callback const told(hold.lost(150ms), [&] { early = hold.valid_for().count(); });
  memory::set_outage(name_, true);
  ASSERT_TRUE(eventually([&] { return early != 0; }, 5s));
  EXPECT_GT(std::chrono::nanoseconds(early), kTtl / 10);
  EXPECT_FALSE(hold.lost().stop_requested()) << "the ordinary signal comes later";
}

TEST_F(Memory, AnAcquireWaitsOutAnOutageAndIsGranted) {
  auto client = connect();
  memory::set_outage(name_, true);
  auto waiting = std::async(std::launch::async, [&] { return client.lock("x").acquire_for(20s); });
  EXPECT_EQ(waiting.wait_for(2 * kTtl), std::future_status::timeout);
  memory::set_outage(name_, false);
  EXPECT_TRUE(waiting.get().value().valid());
}

TEST_F(Memory, AtTheDeadlineAnOutageIsUnavailableAndALineIsTimedOut) {
  auto a = connect(), b = connect();
  auto hold = a.lock("x").acquire().value();
  EXPECT_EQ(b.lock("x").acquire_for(50ms).error(), errc::timed_out);
  memory::set_outage(name_, true);
  EXPECT_EQ(b.lock("x").acquire_for(50ms).error(), errc::unavailable);
}

TEST_F(Memory, ATryIsBoundedByTheRequestTimeout) {
  auto client = connect("&request_timeout=100ms");
  memory::set_outage(name_, true);
  auto const begin = std::chrono::steady_clock::now();
  EXPECT_EQ(client.lock("x").try_acquire().error(), errc::unavailable);
  EXPECT_EQ(client.inspect("x").error(), errc::unavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST_F(Memory, AReleaseDuringAnOutageSaysThatItsOutcomeIsUnknownByTheHoldsDeadline) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  memory::set_outage(name_, true);
  auto const left = hold.valid_for();
  auto const begin = std::chrono::steady_clock::now();
  EXPECT_EQ(hold.release().error(), errc::unknown_outcome);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, left + 2s);
  memory::set_outage(name_, false);
  EXPECT_TRUE(eventually([&] { return client.lock("x").try_acquire().has_value(); })) << "clean-up went on";
}

TEST_F(Memory, AfterALostSessionTheSameClientOpensANewOne) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  auto const first = hold.fence();
  memory::expire_sessions(name_);
  EXPECT_TRUE(eventually([&] { return hold.lost().stop_requested(); }));
  EXPECT_FALSE(hold.valid());
  auto again = client.lock("x").acquire_for(10s).value();
  EXPECT_GT(again.fence(), first);
}

TEST_F(Memory, AWaiterWhoseSessionIsLostJoinsAgain) {
  auto a = connect(), b = connect();
  auto hold = a.lock("x").acquire().value();
  auto waiting = std::async(std::launch::async, [&] { return b.lock("x").acquire_for(20s); });
  ASSERT_TRUE(eventually([&] { return a.inspect("x").value().size() == 2; }));
  memory::expire_sessions(name_);
  EXPECT_TRUE(waiting.get().value().valid());
}

TEST_F(Memory, AnEntryTakenAwayByAStrangerIsNoticedWithinABeat) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  auto const begin = std::chrono::steady_clock::now();
  memory::remove_holder(name_, "x");
  ASSERT_TRUE(eventually([&] { return !hold.valid(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kTtl);
  EXPECT_TRUE(hold.lost().stop_requested());
}

TEST_F(Memory, ConnectSaysInTimeThatNobodyAnswers) {
  memory::set_outage(name_, true);
  auto const client = Client::connect("memory:" + name_ + "?connect_timeout=100ms");
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error(), errc::unavailable);
  EXPECT_NE(client.error().message().find(name_), std::string::npos) << client.error().message();
}

TEST_F(Memory, ALogSinkHearsOfChangesOfStateAndMayBlock) {
  std::atomic<int> lines{0};
  auto config = Config::from_url("memory:" + name_ + "?ttl=400ms").value();
  config.log = [&](LogLevel, std::string_view) {
    ++lines;
    std::this_thread::sleep_for(2 * kTtl);
  };
  auto client = Client::connect(config).value();
  auto hold = client.lock("x").acquire().value();
  ASSERT_TRUE(eventually([&] { return lines == 1; }));
  std::this_thread::sleep_for(kTtl);
  EXPECT_TRUE(hold.valid()) << "a sink that blocks costs no hold";
}

TEST_F(Memory, AQuestionAskedInAnOutageEndsWithItsClient) {
  auto client = connect("&close_timeout=100ms&request_timeout=60s");
  memory::set_outage(name_, true);
  auto asked = std::async(std::launch::async, [client] { return client.inspect("x").error(); });
  EXPECT_EQ(asked.wait_for(100ms), std::future_status::timeout);
  EXPECT_EQ(client.close().error(), errc::unknown_outcome);
  EXPECT_EQ(client.close().error(), errc::unknown_outcome) << "and the second close says so, too";
  EXPECT_EQ(asked.get(), errc::closed);
}

TEST_F(Memory, AnAsyncReleaseOfTheLastHandleBlocksNobodyAndIsAnsweredByTheDeadline) {
  std::optional<Hold> hold;
  {
    auto client = connect();
    hold = client.lock("x").acquire().value();
  }
  memory::set_outage(name_, true);
  std::promise<error_code> released;
  hold->async_release([&](error_code ec) { released.set_value(ec); });
  EXPECT_EQ(released.get_future().get(), errc::unknown_outcome);
}

}  // namespace
}  // namespace holdfast
