#include <signal.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <filesystem>
#include <future>
#include <iostream>

#include "tests/etcd/cluster.hpp"

// Whoever does not notice how time goes by: a leader that was deposed meanwhile, and a holder that was stopped.

namespace holdfast::test {
namespace {

using Clock = std::chrono::steady_clock;

TEST_F(Etcd, ADeposedLeaderThatStillAnswersRenewalsDoesNotProlongAHold) {
  auto const leader = static_cast<std::size_t>(std::stoi(order("leader")));
  auto const all = members();
  auto client = Client::connect("etcd://" + all[leader - 1] + root_ + "?ttl=9s").value();
  auto other = Client::connect("etcd://" + all[leader % 3] + "," + all[(leader + 1) % 3] + root_ + "?ttl=60s").value();
  auto hold = client.lock("x").acquire().value();
  std::promise<bool> overlap;
  other.lock("x").async_acquire({}, [&](error_code, Hold const&) { overlap.set_value(hold.valid()); });
  ASSERT_TRUE(eventually([&] { return other.inspect("x")->size() == 2; }));
  auto left = hold.valid_for();
  ASSERT_TRUE(eventually([&] { return hold.valid_for() > std::exchange(left, hold.valid_for()); })) << "a renewal";
  order("cut " + std::to_string(leader));
  order("pause " + std::to_string(leader));
  // The others choose a new leader, who starts the lease anew. Just before the next renewal, after three seconds, the
  // old one goes on, knows nothing of that, and answers.
  std::this_thread::sleep_for(2800ms);
  order("resume " + std::to_string(leader));
  EXPECT_FALSE(overlap.get_future().get()) << "granted to another while it was still valid";
  EXPECT_FALSE(hold.valid());
}

/// The other process of the test below: holds, and says what it finds when it was not scheduled for two seconds.
TEST_F(Etcd, DISABLED_HoldsUntilItWasStopped) {
  char const* const place = std::getenv("HOLDFAST_TEST_PLACE");
  ASSERT_NE(place, nullptr) << "run by AHolderStoppedPastItsTtlFindsThatOnWaking";
  auto client = Client::connect(place).value();
  auto const hold = client.lock("x").acquire().value();
  std::cout << "held " << ::getpid() << std::endl;
  for (auto last = Clock::now();;) {
    auto const now = Clock::now();
    bool const valid = hold.valid();
    if (now - last > 2s) {
      std::cout << "woke " << (valid ? "valid" : "invalid") << std::endl;
      break;
    }
    last = now;
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(eventually([&] { return hold.lost().stop_requested(); }));
  auto const again = client.lock("x").acquire_for(20s);
  std::cout << "again " << (again && again->fence() > hold.fence() ? "higher" : "not") << std::endl;
}

TEST_F(Etcd, AHolderStoppedPastItsTtlFindsThatOnWaking) {
  auto other = connect("ttl=60s");
  auto const self = std::filesystem::read_symlink("/proc/self/exe").string();
  ::setenv("HOLDFAST_TEST_PLACE", url("ttl=3s").c_str(), 1);
  FILE* const child = ::popen(
      ("exec " + self + " --gtest_also_run_disabled_tests --gtest_filter=Etcd.DISABLED_HoldsUntilItWasStopped").c_str(),
      "re");
  ASSERT_NE(child, nullptr);
  auto const hear = [&](std::string const& word) {
    std::array<char, 256> line{};
    while (std::fgets(line.data(), line.size(), child) != nullptr)
      if (std::string text = line.data(); text.starts_with(word + " ")) {
        text.pop_back();
        return text.substr(word.size() + 1);
      }
    return std::string();
  };
  auto const pid = std::stoi(hear("held"));
  auto waiting = other.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_EQ(waiting.wait_for(100ms), std::future_status::timeout);
  ::kill(pid, SIGSTOP);
  ASSERT_EQ(waiting.wait_for(20s), std::future_status::ready) << "its lease runs out";
  ::kill(pid, SIGCONT);
  EXPECT_EQ(hear("woke"), "invalid");
  EXPECT_TRUE(waiting.get().release());
  EXPECT_EQ(hear("again"), "higher");
  hear("the end");
  EXPECT_EQ(::pclose(child), 0);
}

TEST_F(Etcd, OneStreamOfEachKindWhateverTheNumberOfLocks) {
  auto const started = [](std::string const& method) {
    return counted({"grpc_server_started_total{", "grpc_method=\"" + method + "\""});
  };
  auto holder = connect("ttl=60s");
  auto const grants = started("LeaseGrant"), renewals = started("LeaseKeepAlive"), watches = started("Watch");
  auto client = connect("ttl=3s");
  std::vector<Hold> holds;
  std::vector<std::future<Hold>> waiting;
  for (int i = 0; i < 50; ++i) {
    holds.push_back(client.lock("mine-" + std::to_string(i)).acquire().value());
    holds.push_back(holder.lock("theirs-" + std::to_string(i)).acquire().value());
    waiting.push_back(client.lock("theirs-" + std::to_string(i)).async_acquire({}, boost::asio::use_future));
  }
  ASSERT_TRUE(eventually([&] { return holder.inspect("theirs-49")->size() == 2; }));
  auto left = holds[0].valid_for();
  ASSERT_TRUE(eventually([&] { return holds[0].valid_for() > std::exchange(left, holds[0].valid_for()); }));
  EXPECT_EQ(started("LeaseGrant") - grants, 1);
  EXPECT_EQ(started("LeaseKeepAlive") - renewals, 1);
  EXPECT_EQ(started("Watch") - watches, 1);
  holds.clear();
  for (auto& each : waiting) EXPECT_TRUE(each.get().valid());
}

}  // namespace
}  // namespace holdfast::test
