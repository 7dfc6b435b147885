#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <holdfast/config.hpp>
#include <limits>

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using Endpoints = std::vector<Config::Endpoint>;

template <class T>
void expect_problem(Result<T> const& result, std::string_view part, errc condition = errc::invalid_argument) {
  ASSERT_FALSE(result) << part;
  EXPECT_TRUE(result.error() == condition) << result.error().message();
  EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
}

void expect_bad_url(std::string const& url, std::string_view part, errc condition = errc::invalid_argument) {
  SCOPED_TRACE(url);
  expect_problem(Config::from_url(url), part, condition);
}

Config from(std::string const& url) {
  auto result = Config::from_url(url);
  EXPECT_TRUE(result) << url << ": " << result.error().message();
  return result ? *result : Config();
}

TEST(ConfigUrl, DefaultsAreThoseOfTheTable) {
  Config const config = from("zk://h1");
  EXPECT_EQ(config.scheme, "zk");
  EXPECT_EQ(config.root, "");
  EXPECT_FALSE(config.ttl);
  EXPECT_EQ(config.connect_timeout, 5s);
  EXPECT_EQ(config.request_timeout, 5s);
  EXPECT_EQ(config.close_timeout, 2s);
  EXPECT_EQ(config.drift, 0.01);
  EXPECT_EQ(config.label, "");
  EXPECT_EQ(config.fence_epoch, 0U);
  EXPECT_FALSE(config.tls);
}

TEST(ConfigUrl, EveryKeyIsRead) {
  Config const config = from(
      "etcd://h1/app?ttl=10s&connect_timeout=250ms&request_timeout=3s&close_timeout=1m&drift=0.5%25&label=worker%207"
      "&fence_epoch=18446744073709551615&tls=true&ca=/ca.pem&cert=/c.pem&key=/k.pem&user=root&password=a%26b%3Dc");
  EXPECT_EQ(config.ttl, 10s);
  EXPECT_EQ(config.connect_timeout, 250ms);
  EXPECT_EQ(config.request_timeout, 3s);
  EXPECT_EQ(config.close_timeout, 1min);
  EXPECT_DOUBLE_EQ(config.drift, 0.005);
  EXPECT_EQ(config.label, "worker 7");
  EXPECT_EQ(config.fence_epoch, std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(config.tls);
  EXPECT_EQ(config.ca + config.cert + config.key, "/ca.pem/c.pem/k.pem");
  EXPECT_EQ(config.user, "root");
  EXPECT_EQ(config.password, "a&b=c");
}

TEST(ConfigUrl, HostsHaveDefaultPorts) {
  EXPECT_EQ(from("zk://h1,h2:99").endpoints, (Endpoints{{"h1", 2181}, {"h2", 99}}));
  EXPECT_EQ(from("etcd://10.0.0.1,[::1],[fe80::2]:5").endpoints,
            (Endpoints{{"10.0.0.1", 2379}, {"::1", 2379}, {"fe80::2", 5}}));
}

TEST(ConfigUrl, BadHostIsToldByItsPlace) {
  for (std::string const place : {"zk:", "zk:/", "zk://", "zk:///root", "zk:h1", "zk:?ttl=1s"}) {
    expect_bad_url(place, "needs hosts");
  }
  expect_bad_url("zk://h1,", "host 2 of the URL: it is empty");
  expect_bad_url("zk://,h1", "host 1 of the URL: it is empty");
  expect_bad_url("zk://h1,,h2", "host 2 of the URL: it is empty");
  expect_bad_url("zk://h 1", "not a host name");
  expect_bad_url("zk://h%31", "not a host name");
  expect_bad_url("zk://" + std::string(254, 'h'), "not a host name");
  expect_bad_url("zk://:2181", "not a host name");
  expect_bad_url("zk://::1", "goes in brackets");
  expect_bad_url("zk://[::1", "closing bracket");
  expect_bad_url("zk://[::1]2181", "only :port");
  expect_bad_url("zk://[h1]:2181", "not an IPv6 address");
  expect_bad_url("zk://["s + '\0' + "]", "not an IPv6 address");
  for (std::string const port : {"", "0", "65536", "-1", "+1", "x", "2181x", "02181", "99999999999999999999"}) {
    expect_bad_url("zk://h1,h2:" + port + "/r", "host 2 of the URL: the port is not a number from 1 to 65535");
  }
  std::string many = "zk://h";
  for (int i = 0; i < 64; ++i) many += ",h";
  expect_bad_url(many, "more than 64 hosts");
}

TEST(ConfigUrl, RootIsNormalised) {
  EXPECT_EQ(from("zk://h").root, "");
  EXPECT_EQ(from("zk://h/").root, "");
  EXPECT_EQ(from("zk://h/a/b").root, "/a/b");
  EXPECT_EQ(from("zk://h/a/b/").root, "/a/b");
  EXPECT_EQ(from("zk://h/a%20b/...").root, "/a b/...");
}

TEST(ConfigUrl, BadRootIsRefused) {
  expect_bad_url("zk://h//a", "empty segment");
  expect_bad_url("zk://h/a//b", "empty segment");
  expect_bad_url("zk://h/a//", "empty segment");
  expect_bad_url("zk://h//", "empty segment");
  expect_bad_url("zk://h/a/./b", "segment is '.'");
  expect_bad_url("zk://h/..", "segment is '..'");
  expect_bad_url("zk://h/%2e%2E/a", "segment is '..'");
  expect_bad_url("zk://h/a%00", "NUL");
  expect_bad_url("zk://h/a%0a", "control character");
  expect_bad_url("zk://h/%ff", "UTF-8");
  expect_bad_url("zk://h/%f", "broken percent escape");
  expect_bad_url("zk://h/" + std::string(1024, 'a'), "longer than 1024");
}

TEST(ConfigUrl, FileTakesADirectoryOfThisHost) {
  EXPECT_EQ(from("file:/var/lib/locks").root, "/var/lib/locks");
  EXPECT_EQ(from("file:///var/lib/locks/").root, "/var/lib/locks");
  EXPECT_EQ(from("file:locks").root, "locks");
  EXPECT_EQ(from("file:/").root, "/");
  EXPECT_EQ(from("file:/a%3Fb?ttl=1s").root, "/a?b");
  expect_bad_url("file:", "needs a directory");
  expect_bad_url("file://", "needs a directory");
  expect_bad_url("file://host/x", "takes no host name");
  expect_bad_url("file:/a%00b", "NUL");
}

TEST(ConfigUrl, MemoryTakesAName) {
  EXPECT_EQ(from("memory:test-1").root, "test-1");
  expect_bad_url("memory:", "needs a name");
  expect_bad_url("memory:?ttl=1s", "needs a name");
  expect_bad_url("memory://name", "as in memory:name");
  expect_bad_url("memory:%ff", "UTF-8");
}

TEST(ConfigUrl, UnknownSchemeIsNamedWithTheKnownOnes) {
  expect_bad_url("redis://h1", "scheme 'redis' is unknown; known are zk, etcd, file and memory");
  expect_bad_url("ZK://h1", "scheme 'ZK' is unknown");
  expect_bad_url("", "the URL is empty");
  for (std::string const url : {"h1", ":", "://h1", "/var/lib", " zk://h1", "h.1:2181"}) expect_bad_url(url, "scheme");
}

TEST(ConfigUrl, UnknownKeyIsNamedWithTheKnownOnes) {
  expect_bad_url("zk://h?ttll=5s", "unknown key 'ttll'; known are ttl, connect_timeout");
  expect_bad_url("zk://h?TTL=5s", "unknown key 'TTL'");
  expect_bad_url("zk://h?%74tl=5s", "unknown key");
  expect_bad_url("zk://h?url=zk:", "unknown key 'url'");
}

TEST(ConfigUrl, MalformedQueryIsRefused) {
  for (std::string const query : {"ttl", "=5s", "&", "ttl=5s&", "&ttl=5s", "ttl=5s&&tls=true", "="}) {
    expect_bad_url("zk://h?" + query, "not key=value");
  }
  expect_bad_url("zk://h?ttl=5s#top", "%23");
  expect_bad_url("zk://h?label=%4", "label: the value has a broken percent escape");
  EXPECT_EQ(from("zk://h?").root, "");
  EXPECT_EQ(from("zk://h?label=a=b?c").label, "a=b?c");
}

TEST(ConfigUrl, KeyGivenTwiceIsRefused) {
  expect_bad_url("zk://h?ttl=5s&tls=true&ttl=5s", "ttl is given twice");
  expect_bad_url("zk://h?user=u&password=x&password=y", "password is given twice");
}

TEST(ConfigUrl, EmptyValueIsRefused) {
  for (std::string const key : {"ttl", "label", "ca", "user", "password", "password_file", "password_env"}) {
    expect_bad_url("zk://h?" + key + "=", key + ": the value is empty");
    expect_bad_url("zk://h?" + key + "=%00", key + ": the value has a NUL byte");
  }
}

TEST(ConfigUrl, BadValueIsNamed) {
  expect_bad_url("zk://h?ttl=15", "ttl: '15' has no unit");
  expect_bad_url("zk://h?close_timeout=-1s", "close_timeout: '-1s' is negative");
  expect_bad_url("zk://h?tls=yes", "tls: 'yes' is neither true nor false");
  for (std::string const epoch : {"-1", "+1", "1.0", "0x1", "18446744073709551616", "one", "007"}) {
    expect_bad_url("zk://h?fence_epoch=" + epoch, "fence_epoch: '" + epoch + "'");
  }
  for (std::string const drift : {"1", "%25", "-1%25", "51%25", "50.1%25", "1%25%25", ".5%25", "5.%25", "1.2.3%25",
                                  "nan%25", "inf%25", "1e1%25", "1 %25", "0x1%25"}) {
    expect_bad_url("zk://h?drift=" + drift, "is not a percentage from 0% to 50%");
  }
  EXPECT_EQ(from("zk://h?drift=0%25").drift, 0.0);
  EXPECT_EQ(from("zk://h?drift=50%25").drift, 0.5);
  expect_bad_url("zk://h?label=" + std::string(257, 'a'), "label: it is 257 bytes; the limit is 256");
  expect_bad_url("zk://h?label=%ff", "label: it is not valid UTF-8");
}

TEST(ConfigUrl, DriftMayEndInAPlainPercentSign) {
  Config const config =
      from("zk://h1:2181,h2:2181/root?ttl=15s&connect_timeout=5s&drift=1%&label=worker-7&fence_epoch=0");
  EXPECT_EQ(config.drift, 0.01);
  EXPECT_EQ(config.label, "worker-7");
  expect_bad_url("zk://h?drift=1%25%", "drift: '1%%' is not a percentage");
  expect_bad_url("zk://h?drift=%", "drift: '%' is not a percentage");
  expect_bad_url("zk://h?label=50%", "label: the value has a broken percent escape");
}

TEST(ConfigUrl, DurationsHaveStatedBounds) {
  EXPECT_EQ(from("zk://h?ttl=24h").ttl, 24h);
  expect_bad_url("zk://h?ttl=0s", "ttl: 0ms is out of range; it must be above 0 and at most 24h");
  expect_bad_url("zk://h?ttl=86400001ms", "at most 24h");
  for (std::string const key : {"connect_timeout", "request_timeout", "close_timeout"}) {
    from("zk://h?" + key + "=1h");
    expect_bad_url("zk://h?" + key + "=0ms", key + ": 0ms is out of range");
    expect_bad_url("zk://h?" + key + "=61m", "at most 1h");
  }
}

TEST(ConfigUrl, ThePingLagIsZooKeepersAlone) {
  EXPECT_EQ(from("zk://h").ping_lag, 0ms);
  EXPECT_EQ(from("zk://h?ping_lag=4s").ping_lag, 4s);
  expect_bad_url("zk://h?ping_lag=61m", "ping_lag: 3660000ms is out of range");
  expect_bad_url("etcd://h?ping_lag=4s", "ping_lag does not apply to etcd:", errc::not_supported);
}

TEST(ConfigUrl, HugeUrlIsRefused) {
  expect_bad_url("zk://h?label=" + std::string(64 * 1024, 'a'), "longer than 65536 bytes");
}

TEST(ConfigUrl, TlsAndLoginDoNotApplyOnThisHost) {
  for (std::string const key : {"tls=true", "ca=/a", "cert=/a", "key=/a", "user=u", "password=x"}) {
    std::string const name = key.substr(0, key.find('='));
    expect_bad_url("file:/a?" + key, name + " does not apply to file:", errc::not_supported);
    expect_bad_url("memory:a?" + key, name + " does not apply to memory:", errc::not_supported);
  }
  EXPECT_FALSE(from("file:/a?tls=false").tls);
}

TEST(ConfigUrl, HalfOfAPairIsRefused) {
  expect_bad_url("zk://h?password=x", "user: a password is given, but no user");
  expect_bad_url("zk://h?tls=true&cert=/a", "key: cert and key go together");
  expect_bad_url("zk://h?tls=true&key=/a", "cert: cert and key go together");
  expect_bad_url("zk://h?ca=/a", "ca: it needs tls=true");
}

TEST(ConfigEnv, ReadsHoldfastUrl) {
  ::setenv("HOLDFAST_URL", "memory:from-env", 1);
  EXPECT_EQ(Config::from_env().value().root, "from-env");
  ::setenv("HOLDFAST_URL", "", 1);
  expect_problem(Config::from_env(), "the URL is empty");
  ::unsetenv("HOLDFAST_URL");
  expect_problem(Config::from_env(), "HOLDFAST_URL is not set");
}

TEST(ConfigValidate, ChecksWhatWasFilledInByHand) {
  expect_problem(Config().validate(), "scheme: '' is unknown");
  Config const good = from("zk://h/a");
  EXPECT_TRUE(good.validate());
  auto const broken = [&](auto change, std::string_view part) {
    Config config = good;
    change(config);
    expect_problem(config.validate(), part);
  };
  broken([](Config& c) { c.endpoints.clear(); }, "at least one host");
  broken([](Config& c) { c.endpoints[0].port = 0; }, "has no port");
  broken([](Config& c) { c.endpoints[0].host = "a b"; }, "'a b' is not a host");
  broken([](Config& c) { c.scheme = "file"; }, "has no hosts");
  broken([](Config& c) { c.root = "a"; }, "does not begin with '/'");
  broken([](Config& c) { c.root = "/"; }, "empty segment");
  broken([](Config& c) { c.root = "/a/"; }, "empty segment");
  broken([](Config& c) { c.ttl = -1ms; }, "ttl: -1ms is out of range");
  broken([](Config& c) { c.request_timeout = 0ms; }, "request_timeout");
  broken([](Config& c) { c.drift = std::nan(""); }, "drift");
  broken([](Config& c) { c.drift = -0.01; }, "drift");
  broken([](Config& c) { c.user = "u", c.password = std::string(5000, 'x'); }, "password: longer than 4096");
}

}  // namespace
}  // namespace holdfast
