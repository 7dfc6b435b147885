#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/zk/place.hpp"
#include "tests/zk/raw.hpp"

namespace holdfast::test {
namespace {

class ZkTrouble : public Zk {
 protected:
  /// `connect` ends in time with `unavailable`, and says whom it tried.
  static void unreachable(std::string const& hosts) {
    auto const begun = std::chrono::steady_clock::now();
    auto const result = Client::connect("zk://" + hosts + "/root?connect_timeout=700ms");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error(), errc::unavailable);
    EXPECT_NE(result.error().message().find(hosts), std::string::npos) << result.error().message();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 4s);
  }
};

TEST_F(ZkTrouble, AnUnknownHostIsNamed) { unreachable("no-such-host.invalid:2181"); }

TEST_F(ZkTrouble, ARefusedPortIsNamed) { unreachable("127.0.0.1:1"); }

TEST_F(ZkTrouble, AHostThatSaysNothingIsNamed) {
  int const silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(silent, 8), 0);
  ::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size);
  unreachable("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  ::close(silent);
}

TEST_F(ZkTrouble, WithoutAQuorumAnAcquireEndsByItsDeadlineAndWorksAfterwards) {
  auto client = connect("ttl=30s");
  ASSERT_TRUE(client.lock("x").acquire().value().release());
  int const left = cluster_.leader();
  for (int const member : {1, 2, 3})
    if (member != left) cluster_.tell("kill", member);
  auto const begun = std::chrono::steady_clock::now();
  EXPECT_EQ(client.lock("x").acquire_for(1500ms).error(), errc::unavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 3s);
  unreachable(hosts());
  cluster_.tell("start all");
  EXPECT_TRUE(client.lock("x").acquire_for(30s));
}

TEST_F(ZkTrouble, ATtlThatIsNotGrantedIsAnErrorAndTheDefaultBends) {
  auto const result = Client::connect(url("ttl=50ms"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), errc::invalid_argument);
  EXPECT_NE(result.error().message().find("ttl"), std::string::npos);
  EXPECT_EQ(Client::connect(url("tls=true")).error(), errc::not_supported);
}

TEST_F(ZkTrouble, APingLagThatLeavesNoTimeToProveAnythingIsAnError) {
  auto const result = Client::connect(url("ttl=10s&ping_lag=4001ms"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), errc::invalid_argument);
  EXPECT_NE(result.error().message().find("ping_lag"), std::string::npos);
}

TEST_F(ZkTrouble, TheClientLibrarysChatterGoesToOurLog) {
  auto config = Config::from_url("zk://127.0.0.1:1/x?connect_timeout=600ms").value();
  std::mutex mutex;
  std::string log;
  config.log = [&](LogLevel, std::string_view line) {
    std::lock_guard const guard(mutex);
    log += std::string(line) + "\n";
  };
  testing::internal::CaptureStderr();
  EXPECT_FALSE(Client::connect(config));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::lock_guard const guard(mutex);
  EXPECT_NE(log.find("ZooKeeper client: "), std::string::npos) << log;
}

// ---- rights

class ZkRights : public Zk {};

TEST_F(ZkRights, AStrangerCanNeitherReadNorDeleteWhatACredentialGuards) {
  auto client = connect("user=app&password=s3cret");
  auto hold = client.lock("x").acquire().value();
  Raw owner(hosts(), "app:s3cret"), stranger(hosts());
  auto const directory = root_ + "/x";
  auto const names = owner.children(directory);
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(stranger.get(directory + "/" + names[0]), ZNOAUTH);
  EXPECT_EQ(stranger.set(directory + "/" + names[0], "x"), ZNOAUTH);
  EXPECT_EQ(stranger.remove(directory + "/" + names[0]), ZNOAUTH);
  EXPECT_EQ(stranger.create(directory + "/intruder"), ZNOAUTH);
  EXPECT_EQ(stranger.create(root_ + "/intruder"), ZNOAUTH);
  EXPECT_TRUE(hold.valid());
  auto second = connect("user=app&password=s3cret");
  EXPECT_EQ(second.lock("x").try_acquire().error(), errc::busy);
  for (auto const* query : {"", "user=app&password=wrong"}) {
    auto other = connect(query);
    auto const begun = std::chrono::steady_clock::now();
    EXPECT_EQ(other.lock("x").acquire_for(10s).error(), errc::denied);
    EXPECT_EQ(other.lock("new").acquire_for(10s).error(), errc::denied);
    EXPECT_EQ(other.inspect("x").error(), errc::denied);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
    EXPECT_EQ(other.lock("x").acquire_for(10s).error().message().find("wrong"), std::string::npos);
  }
}

TEST_F(ZkRights, ADirectoryInWhichEverybodyMayDeleteIsReported) {
  Raw stranger(hosts());
  ASSERT_EQ(stranger.create(root_), ZOK);
  ASSERT_EQ(stranger.create(root_ + "/x"), ZOK);
  auto config = Config::from_url(url("user=app&password=s3cret")).value();
  std::mutex mutex;
  std::string log;
  config.log = [&](LogLevel, std::string_view line) {
    std::lock_guard const guard(mutex);
    log += std::string(line) + "\n";
  };
  auto client = Client::connect(config).value();
  auto hold = client.lock("x").acquire().value();
  EXPECT_TRUE(eventually([&] {
    std::lock_guard const guard(mutex);
    return log.find(root_ + "/x lets everybody delete") != std::string::npos;
  }));
  (void)client.close();
  EXPECT_EQ(log.find("s3cret"), std::string::npos) << log;
}

/// Beats go to the root, whatever the rights on it: being refused proves the session's life as well as anything.
TEST_F(ZkRights, AHoldStaysValidForOneWhoMayReadNeitherTheTopOfTheTreeNorTheRoot) {
  Raw owner(hosts(), "root:s3cret");
  ASSERT_EQ(owner.create(root_), ZOK);
  ASSERT_EQ(owner.create(root_ + "/x"), ZOK);
  ASSERT_EQ(owner.set_acl(root_, ZOO_CREATOR_ALL_ACL), ZOK);
  ASSERT_EQ(owner.set_acl("/", ZOO_CREATOR_ALL_ACL), ZOK);
  {
    auto client = connect("ttl=2s");
    auto hold = client.lock("x").acquire().value();
    auto const over = std::chrono::steady_clock::now() + 3 * hold.valid_for();
    while (std::chrono::steady_clock::now() < over && hold.valid()) {
      std::this_thread::sleep_for(5ms);
    }
    EXPECT_TRUE(hold.valid());
    EXPECT_TRUE(hold.release());
  }
  EXPECT_EQ(owner.set_acl("/", ZOO_OPEN_ACL_UNSAFE), ZOK);
}

TEST_F(ZkRights, ARootThatMayNotBeWrittenIsDenied) {
  Raw owner(hosts());
  ASSERT_EQ(owner.create(root_, ZOO_READ_ACL_UNSAFE), ZOK);
  auto client = connect();
  EXPECT_EQ(client.lock("x").acquire_for(10s).error(), errc::denied);
  EXPECT_EQ(client.lock("x").try_acquire().error(), errc::denied);
  EXPECT_TRUE(client.names());
}

}  // namespace
}  // namespace holdfast::test
