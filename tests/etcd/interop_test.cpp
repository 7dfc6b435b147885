#include <unistd.h>

#include <atomic>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "tests/etcd/cluster.hpp"

// Others who stand in the same line: `etcdctl lock`, which is Go's concurrency.Mutex, that mutex in a program of its
// own, and the server's Lock RPC (tests/interop/etcd-peer).

namespace holdfast::test {
namespace {

/// A file on which whoever holds the lock leaves a mark when it comes and when it goes.
class Diary {
 public:
  struct Visit {
    std::string who;
    std::uint64_t number = 0;  ///< create revision of its key; 0 if it did not say
    std::uint64_t header = 0;  ///< what a peer's own call said
  };

  Diary() : path_("/dev/shm/holdfast-diary-" + std::to_string(::getpid())) { std::ofstream(path_).close(); }
  ~Diary() { std::filesystem::remove(path_); }

  void write(std::string const& mark) const { std::ofstream(path_, std::ios::app) << mark << std::endl; }
  std::string const& path() const { return path_; }

  /// Every coming is followed by the same one's going, or they overlapped.
  std::vector<Visit> visits() const {
    std::ifstream in(path_);
    std::vector<Visit> all;
    for (std::string come, go; std::getline(in, come) && std::getline(in, go);) {
      Visit visit;
      std::istringstream(come) >> visit.who >> visit.number >> visit.header;
      EXPECT_EQ(visit.who.front(), '+');
      visit.who.erase(0, 1);
      EXPECT_EQ(go, "-" + visit.who) << "somebody came in between";
      all.push_back(visit);
    }
    return all;
  }

  std::map<std::string, int> counts() const {
    std::map<std::string, int> all;
    for (auto const& visit : visits()) ++all[visit.who];
    return all;
  }

 private:
  std::string const path_;
};

/// Stands in line with a peer of the given kind, each so many times.
void contend(std::string const& kind, std::string const& lock, Client& client, int rounds) {
  Diary const diary;
  std::atomic<bool> done{false};
  {
    std::jthread const theirs([&] {
      output_of(std::string(HOLDFAST_ETCD_PEER) + " " + kind + " " + order("address all") + " " + lock + " " +
                std::to_string(rounds) + " " + diary.path() + " peer");
      done = true;
    });
    ASSERT_TRUE(eventually([&] { return !diary.visits().empty(); })) << "the peer has begun";
    for (int i = 0; i < rounds; ++i) {
      auto const hold = client.lock("x").acquire().value();
      diary.write("+us " + std::to_string(hold.fence().token()));
      EXPECT_TRUE(eventually([&] { return done || client.inspect("x")->size() == 2; })) << "the peer waits as well";
      diary.write("-us");
    }
  }
  EXPECT_EQ(diary.counts(), (std::map<std::string, int>{{"peer", rounds}, {"us", rounds}}));
  auto const visits = diary.visits();
  int handed_over = 0;
  for (std::size_t i = 1; i < visits.size(); ++i) {
    handed_over += visits[i].who != visits[i - 1].who;
    EXPECT_GT(visits[i].number, visits[i - 1].number) << "in the order of arrival";
  }
  std::cout << handed_over << " hand-overs between " << kind << " and us\n";
  EXPECT_GT(handed_over, rounds);
}

bool have_peer() { return *HOLDFAST_ETCD_PEER != '\0'; }
constexpr auto kNoPeer =
    "built without Go or Debian's golang-etcd-server-dev: scripts/install-deps --services, configure anew";

TEST_F(Etcd, GosMutexAndOursTakeTurns) {
  ASSERT_TRUE(have_peer()) << kNoPeer;
  auto client = connect();
  contend("mutex", root_ + "/x", client, 150);
}

TEST_F(Etcd, TheServersLockRpcAndOursTakeTurns) {
  ASSERT_TRUE(have_peer()) << kNoPeer;
  auto client = connect();
  contend("rpc", root_ + "/x", client, 150);
}

/// What a peer that had to wait calls its revision, though its key's number is lower than ours.
void compare_revisions(Client& client, std::function<void(Diary const&)> const& peer) {
  Diary const diary;
  auto first = client.lock("x").acquire().value();
  std::jthread const theirs([&] { peer(diary); });
  ASSERT_TRUE(eventually([&] { return client.inspect("x")->size() == 2; }));
  auto const peers = client.inspect("x")->at(1).fence.token();
  auto next = client.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return client.inspect("x")->size() == 3; }));
  EXPECT_TRUE(first.release());
  auto const ours = next.get().fence().token();
  auto const visit = diary.visits().at(0);
  EXPECT_LT(peers, ours) << "the create revision of the peer's key compares with our fence";
  EXPECT_GT(std::max(visit.header, visit.number), ours) << "what it says itself outranks the next holder's";
}

TEST_F(Etcd, WhatGoCallsTheRevisionOfALockIsNotAFence) {
  ASSERT_TRUE(have_peer()) << kNoPeer;
  auto client = connect();
  compare_revisions(client, [&](Diary const& diary) {
    output_of(std::string(HOLDFAST_ETCD_PEER) + " mutex " + order("address all") + " " + root_ + "/x 1 " +
              diary.path() + " peer");
  });
}

TEST_F(Etcd, EtcdLockRevOfEtcdctlIsNotAFence) {
  auto client = connect();
  compare_revisions(client, [&](Diary const& diary) {
    etcdctl("lock " + root_ + "/x -- sh -c 'echo +peer $ETCD_LOCK_REV >> " + diary.path() + "; echo -peer >> " +
            diary.path() + "'");
  });
}

TEST_F(Etcd, EtcdctlLockAndOursExcludeEachOther) {
  constexpr int kRounds = 40;
  Diary const diary;
  std::string const lock = root_ + "/x";
  auto const theirs = [&](std::string const& who) {
    output_of("ETCDCTL_API=3 sh -c 'i=0; while [ $i -lt " + std::to_string(kRounds) +
              " ]; do etcdctl --endpoints=" + order("address all") + " lock " + lock + " -- sh -c \"echo +" + who +
              " >> " + diary.path() + "; echo -" + who + " >> " + diary.path() + "\" || exit 1; i=$((i+1)); done'");
  };
  auto const ours = [&](std::string const& who) {
    auto client = connect();
    for (int i = 0; i < 3 * kRounds; ++i) {
      auto const hold = client.lock("x").acquire().value();
      diary.write("+" + who);
      diary.write("-" + who);
    }
  };
  {
    std::jthread const a([&] { theirs("a"); }), b([&] { theirs("b"); }), c([&] { ours("c"); }), d([&] { ours("d"); });
  }
  auto const visits = diary.counts();
  EXPECT_EQ(visits,
            (std::map<std::string, int>{{"a", kRounds}, {"b", kRounds}, {"c", 3 * kRounds}, {"d", 3 * kRounds}}));
}

TEST_F(Etcd, WeStandInLineBehindAnEtcdctlLockAndItBehindUs) {
  auto client = connect();
  auto first = client.lock("x").acquire().value();
  Diary const diary;
  std::jthread const peer([&] {
    etcdctl("lock " + root_ + "/x -- sh -c 'echo +p >> " + diary.path() + "; echo -p >> " + diary.path() + "'");
  });
  ASSERT_TRUE(eventually([&] { return client.inspect("x")->size() == 2; }));
  auto line = client.inspect("x").value();
  EXPECT_TRUE(line[0].holds);
  EXPECT_EQ(line[0].fence, first.fence());
  EXPECT_TRUE(diary.visits().empty());
  EXPECT_TRUE(first.release());
  auto const second = client.lock("x").acquire_for(10s).value();
  EXPECT_EQ(diary.visits().size(), 1u) << "it was there before us";
  EXPECT_GT(second.fence(), line[1].fence) << "the create revision of the peer's key compares with our fence";
}

}  // namespace
}  // namespace holdfast::test
