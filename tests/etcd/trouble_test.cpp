#include "tests/etcd/cluster.hpp"

// Places that cannot be reached, and configurations that cannot be served.

namespace holdfast::test {
namespace {

using Clock = std::chrono::steady_clock;

/// The error of connecting, which has to come in time and without a word on stderr.
error_code refusal(std::string const& url) {
  testing::internal::CaptureStderr();
  auto const begun = Clock::now();
  auto const client =
      Client::connect(url + (url.find('?') == std::string::npos ? "?" : "&") + "connect_timeout=1500ms");
  EXPECT_LT(Clock::now() - begun, 2500ms) << url;
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << url;
  EXPECT_FALSE(client) << url;
  return client ? error_code() : client.error();
}

bool says(error_code const& ec, std::string const& words) { return ec.message().find(words) != std::string::npos; }

TEST_F(Etcd, AnUnknownHostIsUnavailable) {
  auto const ec = refusal("etcd://no-such-host.invalid:2379/app");
  EXPECT_EQ(ec, errc::unavailable) << ec.message();
  EXPECT_TRUE(says(ec, "no-such-host.invalid:2379")) << ec.message();
}

TEST_F(Etcd, ARefusedPortIsUnavailable) {
  auto const ec = refusal("etcd://127.0.0.1:1,127.0.0.1:2/app");
  EXPECT_EQ(ec, errc::unavailable) << ec.message();
  EXPECT_TRUE(says(ec, "127.0.0.1:1") && says(ec, "127.0.0.1:2")) << ec.message();
}

TEST_F(Etcd, ADeadMemberInTheListIsPassedOver) {
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(Client::connect("etcd://127.0.0.1:1," + members()[0] + root_));
}

TEST_F(Etcd, APlainPortSpokenToInTlsIsUnavailable) {
  auto const ec = refusal(url("tls=true"));
  EXPECT_EQ(ec, errc::unavailable) << ec.message();
}

TEST_F(Etcd, AClusterWithoutQuorumIsUnavailable) {
  order("kill 1");
  order("kill 2");
  auto const ec = refusal(url());
  EXPECT_EQ(ec, errc::unavailable) << ec.message();
}

TEST_F(Etcd, NoConnectionIsLeftOfMembersThatAnsweredTooLate) {
  auto const before = connections();
  auto const client = connect("ttl=4s");
  order("pause 1");
  order("pause 2");  // both accept connections all the same: the kernel does
  EXPECT_TRUE(eventually([&] { return connections().size() >= before.size() + 3; }, 20s));
  order("resume all");
  EXPECT_TRUE(eventually([&] { return connections().size() == before.size() + 1; }, 20s)) << connections().size();
}

TEST_F(Etcd, ATtlThatIsNotGrantedIsAnErrorThatNamesIt) {
  for (auto const* ttl : {"300ms", "1s", "2500ms"}) {
    auto const ec = refusal(url(std::string("ttl=") + ttl));
    EXPECT_EQ(ec, errc::invalid_argument) << ec.message();
    EXPECT_TRUE(says(ec, "ttl")) << ec.message();
  }
  EXPECT_EQ(connect().ttl(), 15s);
}

TEST_F(Etcd, AMissingCertificateIsNamed) {
  auto const ec = refusal(url("tls=true&ca=/no/such/ca.pem"));
  EXPECT_TRUE(says(ec, "/no/such/ca.pem")) << ec.message();
}

}  // namespace
}  // namespace holdfast::test
