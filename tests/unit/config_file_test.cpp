#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <holdfast/config.hpp>

#include "common/config_parse.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;
using detail::parse_toml;

constexpr std::string_view kSecret = "S3cr3t-Value";

void expect_problem(Result<Config> const& result, std::string_view part, errc condition = errc::invalid_argument) {
  ASSERT_FALSE(result) << part;
  EXPECT_TRUE(result.error() == condition) << result.error().message();
  EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
}

/// A file that is gone after the test.
class TempFile {
 public:
  explicit TempFile(std::string_view content) {
    path_ = testing::TempDir() + "holdfast_XXXXXX";
    ::close(::mkstemp(path_.data()));
    std::ofstream(path_, std::ios::binary) << content;
  }
  TempFile(TempFile const&) = delete;
  TempFile& operator=(TempFile const&) = delete;
  ~TempFile() { ::unlink(path_.c_str()); }
  std::string const& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ConfigToml, HasTheKeysOfTheUrlBesideTheUrl) {
  Config const config = parse_toml(R"(
# locks of the order service
url = "etcd://h1,h2/app?label=worker-7"
ttl = "10s"
drift = "0.5%"
fence_epoch = 3
tls = true
ca = "/ca.pem"
user = "root"
password = "a&b%20"
)",
                                   "app.toml")
                            .value();
  EXPECT_EQ(config.endpoints.size(), 2U);
  EXPECT_EQ(config.label, "worker-7");
  EXPECT_EQ(config.ttl, 10s);
  EXPECT_DOUBLE_EQ(config.drift, 0.005);
  EXPECT_EQ(config.fence_epoch, 3U);
  EXPECT_TRUE(config.tls);
  EXPECT_EQ(config.password, "a&b%20") << "values in TOML are not percent-decoded";
}

TEST(ConfigToml, NumbersAndBooleansMayBeStringsToo) {
  Config const config = parse_toml("url='zk://h'\nfence_epoch='18446744073709551615'\ntls='true'", "app.toml").value();
  EXPECT_EQ(config.fence_epoch, UINT64_MAX);
  EXPECT_TRUE(config.tls);
}

TEST(ConfigToml, UnknownKeyIsNamedWithFileAndLine) {
  expect_problem(parse_toml("url='zk://h'\n\nttll='5s'", "app.toml"),
                 "app.toml:3: unknown key 'ttll'; known are url, ttl");
  expect_problem(parse_toml("url='zk://h'\nlock.ttl='5s'", "app.toml"), "app.toml:2: unknown key 'lock'");
  expect_problem(parse_toml("url='zk://h'\n[lock]\nttl='5s'", "app.toml"), "app.toml:2: unknown key 'lock'");
}

TEST(ConfigToml, KeyGivenTwiceIsRefused) {
  expect_problem(parse_toml("url='zk://h?ttl=5s'\nttl='5s'", "app.toml"), "app.toml:2: ttl is given twice");
  expect_problem(parse_toml("url='zk://h'\nttl='5s'\nttl='6s'", "app.toml"), "app.toml:3: ttl: given twice");
}

TEST(ConfigToml, UrlIsRequired) {
  expect_problem(parse_toml("", "app.toml"), "app.toml: the key url is missing");
  expect_problem(parse_toml("url=1", "app.toml"), "app.toml:1: url: the value must be a string");
  expect_problem(parse_toml("url='redis://h'", "app.toml"), "app.toml:1: url: scheme 'redis' is unknown");
}

TEST(ConfigToml, WrongTypeIsRefused) {
  expect_problem(parse_toml("url='zk://h'\nttl=15", "app.toml"), "app.toml:2: ttl: the value must be a string");
  expect_problem(parse_toml("url='zk://h'\nttl.x='1s'", "app.toml"), "ttl: the value must be a string");
  expect_problem(parse_toml("url='zk://h'\nlabel=['a']", "app.toml"), "label: the value must be a string");
  expect_problem(parse_toml("url='zk://h'\nfence_epoch=1.5", "app.toml"), "fence_epoch: the value must be a number");
  expect_problem(parse_toml("url='zk://h'\nfence_epoch=-1", "app.toml"), "fence_epoch: '-1' is not");
  expect_problem(parse_toml("url='zk://h'\ntls=1", "app.toml"), "tls: the value must be true or false");
}

TEST(ConfigToml, BadValueIsNamedWithFileAndLine) {
  expect_problem(parse_toml("url='zk://h'\nttl='15'", "app.toml"), "app.toml:2: ttl: '15' has no unit");
  expect_problem(parse_toml("url='zk://h'\nttl='0s'", "app.toml"), "app.toml: ttl: 0ms is out of range");
  expect_problem(parse_toml("url='file:/a'\ntls=true", "app.toml"), "app.toml: tls does not apply",
                 errc::not_supported);
}

TEST(ConfigToml, BrokenSyntaxIsToldByLineAndKey) {
  expect_problem(parse_toml("url='zk://h'\nttl=5s", "app.toml"), "app.toml:2: ttl: not valid TOML");
  expect_problem(parse_toml("url=", "app.toml"), "app.toml:1: not valid TOML");
  expect_problem(parse_toml("\xff\xfe", "app.toml"), "not valid TOML");
}

TEST(ConfigToml, ExcessIsRefused) {
  expect_problem(parse_toml("#" + std::string(64 * 1024, 'a'), "app.toml"), "longer than 65536 bytes");
  std::string deep = "url='zk://h'\na";
  for (int i = 0; i < 2000; ++i) deep += ".a";
  expect_problem(parse_toml(deep + "=1", "app.toml"), "unknown key 'a'");
  expect_problem(parse_toml(deep + ".a=1", "app.toml"), "more than 2000 dots");
  expect_problem(parse_toml("a=" + std::string(30000, '['), "app.toml"), "not valid TOML");
}

TEST(ConfigFile, IsRead) {
  TempFile const file("url = 'memory:from-file'\n");
  EXPECT_EQ(Config::from_file(file.path()).value().root, "from-file");
}

TEST(ConfigFile, UnreadableFileIsNamed) {
  expect_problem(Config::from_file("/no/such/file.toml"), "cannot read '/no/such/file.toml': No such file",
                 errc::unavailable);
  expect_problem(Config::from_file("/"), "cannot read '/'", errc::unavailable);
  expect_problem(Config::from_file(""), "cannot read ''", errc::unavailable);
}

TEST(ConfigFile, EndlessFileIsRefused) {
  expect_problem(Config::from_file("/dev/zero"), "/dev/zero: longer than 65536 bytes");
}

TEST(ConfigFile, ForbiddenFileIsDenied) {
  TempFile const file("url = 'memory:x'");
  ::chmod(file.path().c_str(), 0);
  uid_t const me = ::geteuid();
  uid_t const nobody = 65534;  // root may read everything
  if (me == 0 && ::seteuid(nobody) != 0) GTEST_SKIP() << "root, and nobody else to be";
  auto const config = Config::from_file(file.path());
  ASSERT_EQ(::seteuid(me), 0);
  expect_problem(config, file.path(), errc::denied);
}

TEST(ConfigSecret, ComesFromAFileWithoutItsNewline) {
  for (auto const& [content, secret] : std::vector<std::pair<std::string, std::string>>{
           {"abc", "abc"}, {"abc\n", "abc"}, {"abc\r\n", "abc"}, {"abc\n\n", "abc\n"}, {" a b ", " a b "}}) {
    TempFile const file(content);
    EXPECT_EQ(Config::from_url("zk://h?user=u&password_file=" + file.path()).value().password, secret);
  }
}

TEST(ConfigSecret, ComesFromTheEnvironment) {
  ::setenv("HOLDFAST_TEST_SECRET", "abc", 1);
  EXPECT_EQ(Config::from_url("zk://h?user=u&password_env=HOLDFAST_TEST_SECRET").value().password, "abc");
  ::setenv("HOLDFAST_TEST_SECRET", "", 1);
  expect_problem(Config::from_url("zk://h?user=u&password_env=HOLDFAST_TEST_SECRET"),
                 "password_env: the variable 'HOLDFAST_TEST_SECRET' is empty");
  ::unsetenv("HOLDFAST_TEST_SECRET");
  expect_problem(Config::from_url("zk://h?user=u&password_env=HOLDFAST_TEST_SECRET"),
                 "password_env: the environment has no variable 'HOLDFAST_TEST_SECRET'");
}

TEST(ConfigSecret, MissingEmptyOrHugeFileIsNamed) {
  expect_problem(Config::from_url("zk://h?user=u&password_file=/no/such"), "password_file: cannot read '/no/such'");
  expect_problem(Config::from_url("zk://h?user=u&password_file=/dev/null"), "the file '/dev/null' is empty");
  TempFile const huge(std::string(5000, 'x'));
  expect_problem(Config::from_url("zk://h?user=u&password_file=" + huge.path()), "password: longer than 4096");
}

TEST(ConfigSecret, AtMostOneSource) {
  expect_problem(Config::from_url("zk://h?user=u&password=x&password_env=HOME"),
                 "password_env is given beside password; at most one");
  expect_problem(Config::from_url("zk://h?user=u&password_env=HOME&password_file=/x"),
                 "password_file is given beside password_env");
  expect_problem(parse_toml("url='zk://h?user=u&password=x'\npassword_env='HOME'", "app.toml"),
                 "app.toml:2: password_env is given beside password");
}

TEST(ConfigSecret, IsNeverPrinted) {
  std::string const s(kSecret);
  TempFile const file(s + std::string(1, '\0'));
  for (std::string const& url :
       {"zk://h?password=" + s, "zk://h?user=u&password=" + s + "%00", "zk://h?user=u&password=" + s + "%",
        "zk://h?user=u&password=" + s + "&password=" + s, "zk://h?user=u&password=a&" + s,
        "zk://h?user=u&password=a&" + s + "=b", "zk://h?user=u&password=a#" + s, "zk://u:" + s + "@h/a", "zk://u:" + s,
        "zk://u:" + s + "/x@h", "file:/a?password=" + s, "memory:a?user=u&password=" + s, "redis://h?password=" + s,
        "zk://h?user=u&ttl=0s&password=" + s, "h?password=" + s, "zk://h?user=u&password_file=" + file.path(),
        "zk://h//?user=u&password=" + s}) {
    auto const result = Config::from_url(url);
    ASSERT_FALSE(result) << url;
    EXPECT_EQ(result.error().message().find(s), std::string::npos) << result.error().message();
  }
}

TEST(ConfigSecret, IsNeverPrintedFromTomlEither) {
  std::string const s(kSecret);
  std::string const url = "url='zk://h'\n";
  for (std::string const& text :
       {url + "password=" + s, url + "password='" + s, url + "password='" + s + "' x", url + "password='" + s + "'",
        url + "password='" + s + "'\npassword='" + s + "'", url + "password=['" + s + "']",
        url + "password=\"" + s + "\\u0000\"", url + "password={a='" + s + "'}", "url='redis://h?password=" + s + "'",
        "url='zk://u:" + s + "@h'", url + "password=1234" + s}) {
    auto const result = parse_toml(text, "app.toml");
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().message().find(s), std::string::npos) << result.error().message();
  }
}

}  // namespace
}  // namespace holdfast
