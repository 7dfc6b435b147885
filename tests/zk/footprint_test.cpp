#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/file/process.hpp"
#include "tests/zk/place.hpp"

// What is left where: watches at the servers, descriptors in other processes.

namespace holdfast::test {
namespace {

int connect_to(std::string const& address) {
  int const fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

class ZkFootprint : public Zk {
 protected:
  /// How many watches a member has, as it says itself.
  int watches(int member) {
    int const fd = connect_to(cluster_.address(member));
    (void)!::write(fd, "wchs", 4);
    std::string answer;
    for (char c = 0; ::read(fd, &c, 1) == 1;) answer += c;
    ::close(fd);
    return std::stoi(answer.substr(answer.find("Total watches:") + 14));
  }
};

TEST_F(ZkFootprint, AWaiterThatGivesUpLeavesNoWatch) {
  auto a = connect();
  auto b = Client::connect(at(cluster_.address(1))).value();
  auto const hold = a.lock("x").acquire().value();
  AcquireOptions options;
  std::stop_source stop;
  options.stop = stop.get_token();
  auto waiting = b.lock("x").async_acquire(options, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return watches(1) == 1; }));
  stop.request_stop();
  EXPECT_THROW(waiting.get(), boost::system::system_error);
  EXPECT_TRUE(eventually([&] { return watches(1) == 0; }));
}

TEST_F(ZkFootprint, OneWhoComesTooLateToWatchLeavesNoWatch) {
  auto a = connect();
  Proxy proxy(cluster_.address(1));
  auto b = through(proxy, "ttl=20s");
  auto hold = a.lock("x").acquire().value();
  proxy.cut_at(Op::get, Proxy::When::before);
  auto waiting = b.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return proxy.was_cut(); }));
  EXPECT_TRUE(hold.release());
  proxy.go_on();
  EXPECT_TRUE(waiting.get().valid());
  EXPECT_EQ(watches(1), 0);
}

/// An application's own connection to the same server is none of our business.
TEST_F(ZkFootprint, OnlyOurSocketIsKeptFromProgramsThatAreRun) {
  int const theirs = connect_to(cluster_.address(1));
  auto const kept = [] {
    int count = 0;
    for (auto const& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      int const fd = std::stoi(each.path().filename());
      sockaddr_in peer{};
      socklen_t size = sizeof peer;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || peer.sin_family != AF_INET) continue;
      if ((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0) ++count;
    }
    return count;
  };
  int const before = kept();
  auto one = Client::connect(at(cluster_.address(1))).value(), two = Client::connect(at(cluster_.address(1))).value();
  EXPECT_EQ(kept(), before + 2);
  EXPECT_EQ(::fcntl(theirs, F_GETFD) & FD_CLOEXEC, 0);
  ::close(theirs);
}

TEST_F(ZkFootprint, AForkedChildHasNoneOfOurSockets) {
  auto const sockets = [](pid_t pid) {
    std::set<std::string> all;
    for (auto const& each : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
      std::error_code gone;  // closed meanwhile
      auto const target = std::filesystem::read_symlink(each.path(), gone).string();
      if (target.starts_with("socket:")) all.insert(target);
    }
    return all;
  };
  auto worker = client_process(url());
  pid_t const child = std::stoi(worker.ask("fork"));
  auto const shared = [&] {
    auto both = sockets(worker.pid());
    auto const has = sockets(child), ours = sockets(::getpid());
    // It may have inherited one that this process was just about to connect.
    std::erase_if(both, [&](auto const& each) { return !has.contains(each) || ours.contains(each); });
    return both.size();
  };
  EXPECT_GE(sockets(worker.pid()).size(), 1U);
  EXPECT_TRUE(eventually([&] { return shared() == 0; }));
  EXPECT_EQ(worker.ask("acquire x").substr(0, 4), "held");
  ::kill(child, SIGKILL);
}

/// A member that the leader no longer tells anything still shows the entry of a hold that is over.
TEST_F(ZkFootprint, ASequencerIsNotCheckedByAMemberThatLagsBehind) {
  int const slow = cluster_.follower();
  Proxy proxy(cluster_.address(cluster_.leader()));  // one address: a sequencer is of one place
  auto other = through(proxy);
  proxy.target(cluster_.address(slow));
  auto client = through(proxy, "request_timeout=1s&ttl=30s");
  auto hold = other.lock("x").acquire().value();
  auto const sequencer = hold.sequencer();
  ASSERT_EQ(client.check(sequencer), true);
  cluster_.tell("cut", slow);
  EXPECT_TRUE(hold.release());
  auto const current = client.check(sequencer);
  EXPECT_FALSE(current && *current);
  cluster_.tell("heal", slow);
  EXPECT_TRUE(eventually([&] {
    auto const now = client.check(sequencer);
    return now && !*now;
  }));
}

}  // namespace
}  // namespace holdfast::test
