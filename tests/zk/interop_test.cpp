#include <fcntl.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "tests/zk/place.hpp"
#include "tests/zk/raw.hpp"

namespace holdfast::test {
namespace {

/// One turn at the lock, of whoever.
struct Turn {
  std::uint64_t fence = 0;
  std::int64_t from = 0, to = 0;  ///< CLOCK_MONOTONIC, as all peers can tell it
  bool ours = false;
};

std::int64_t monotonic() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

/// Several of us and several of them take one lock in turns, as fast as they can.
class ZkInterop : public Zk {
 protected:
  static constexpr int kThreads = 2;
  static constexpr int kRounds = 300;

  ZkInterop() : mark_("/dev/shm/holdfast-interop-" + std::to_string(::getpid())) { std::filesystem::remove(mark_); }
  ~ZkInterop() override { std::filesystem::remove(mark_); }

  /// `peer` is a command; all begin when the peer's contenders stand in line.
  std::vector<Turn> contend(std::string const& peer) {
    auto gate = connect();
    auto hold = gate.lock("x").acquire().value();
    std::string const command = peer + " " + hosts() + " " + root_ + "/x " + mark_ + " " + std::to_string(kThreads) +
                                " " + std::to_string(kRounds) + " 2>&1";
    auto theirs = std::async(std::launch::async, [command] { return run(command); });
    EXPECT_TRUE(eventually([&] { return gate.inspect("x")->size() == 1 + kThreads; }, 60s)) << command;
    std::vector<std::future<std::vector<Turn>>> ours;
    for (int i = 0; i < kThreads; ++i) ours.push_back(std::async(std::launch::async, [&] { return take_turns(); }));
    EXPECT_TRUE(eventually([&] { return gate.inspect("x")->size() == 1 + 2 * kThreads; }));
    EXPECT_TRUE(hold.release());
    auto turns = theirs.get();
    for (auto& each : ours) {
      auto const more = each.get();
      turns.insert(turns.end(), more.begin(), more.end());
    }
    return turns;
  }

  static void expect_turns(std::vector<Turn> turns) {
    ASSERT_EQ(turns.size(), 2u * kThreads * kRounds);
    std::sort(turns.begin(), turns.end(), [](Turn const& a, Turn const& b) { return a.from < b.from; });
    int to_them = 0, to_us = 0;
    for (std::size_t i = 1; i < turns.size(); ++i) {
      ASSERT_LE(turns[i - 1].to, turns[i].from) << "two at once, in turn " << i;
      ASSERT_LT(turns[i - 1].fence, turns[i].fence) << "not in the order of arrival, in turn " << i;
      if (turns[i - 1].ours && !turns[i].ours) ++to_them;
      if (!turns[i - 1].ours && turns[i].ours) ++to_us;
    }
    EXPECT_GT(to_them, 200);
    EXPECT_GT(to_us, 200);
  }

 private:
  static std::vector<Turn> run(std::string const& command) {
    std::vector<Turn> turns;
    FILE* const pipe = ::popen(command.c_str(), "r");
    std::array<char, 1000> line{};
    while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
      Turn turn;
      if (std::istringstream(line.data()) >> turn.fence >> turn.from >> turn.to) {
        turns.push_back(turn);
      } else {
        ADD_FAILURE() << line.data();
      }
    }
    EXPECT_EQ(::pclose(pipe), 0);
    return turns;
  }

  std::vector<Turn> take_turns() const {
    auto client = connect();
    std::vector<Turn> turns;
    for (int i = 0; i < kRounds; ++i) {
      auto hold = client.lock("x").acquire_for(60s).value();
      Turn turn{hold.fence().token(), monotonic(), 0, true};
      int const mark = ::open(mark_.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      EXPECT_GE(mark, 0) << "somebody else is in";
      ::close(mark);
      EXPECT_EQ(::unlink(mark_.c_str()), 0);
      turn.to = monotonic();
      turns.push_back(turn);
      EXPECT_TRUE(hold.release());
    }
    return turns;
  }

  std::string const mark_;
};

std::string const kPeers = HOLDFAST_TEST_PEERS;

TEST_F(ZkInterop, CuratorsMutexAndOursTakeTurns) {
  std::string classes;
  for (std::string const jar : {"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute",
                                "guava", "slf4j-api", "slf4j-nop"})
    classes += "/usr/share/java/" + jar + ".jar:";
  expect_turns(contend("java -Xmx160m -XX:+UseSerialGC -cp " + classes + " " + kPeers + "/CuratorPeer.java"));
}

TEST_F(ZkInterop, KazoosLockAndOursTakeTurns) {
  expect_turns(contend("/usr/bin/python3 " + kPeers + "/kazoo_peer.py"));
}

/// What docs/interop.md warns of. The resource refuses what is below the highest number that it has seen.
TEST_F(ZkInterop, OnlyTheCzxidOfItsNodeIsAFenceForAPeer) {
  Raw peer(hosts());
  auto client = connect();
  auto first = client.lock("x").acquire().value();
  auto const before = first.fence().token();
  auto const theirs = peer.create_entry(root_ + "/x/_c_0ddba11-lock-");
  auto next = client.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return client.inspect("x")->size() == 3; }));
  ASSERT_TRUE(first.release());  // now the peer holds the lock
  std::uint64_t const czxid = static_cast<std::uint64_t>(theirs.stat.czxid);
  std::uint64_t const sequence = std::stoull(theirs.path.substr(theirs.path.size() - 10));
  // Or the zxid of something that it wrote or read once it was granted.
  std::uint64_t const at_grant = static_cast<std::uint64_t>(peer.create_entry(root_ + "/note-").stat.czxid);
  ASSERT_EQ(peer.remove(theirs.path), ZOK);
  auto const ours = next.get().fence().token();
  EXPECT_TRUE(before < czxid && czxid < ours) << "comparable, in the order of the grants";
  EXPECT_LT(sequence, before) << "the peer would be refused, though it held the lock";
  EXPECT_GT(at_grant, ours) << "we would be refused, though we hold it";
}

}  // namespace
}  // namespace holdfast::test
