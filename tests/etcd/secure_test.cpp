#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <mutex>

#include "tests/etcd/cluster.hpp"
#include "tests/etcd/server.hpp"

// TLS, and users with passwords and tokens.

namespace holdfast::test {
namespace {

using Clock = std::chrono::steady_clock;

class Secure : public testing::Test {
 protected:
  Secure() : files_("/dev/shm/holdfast-secure-" + std::to_string(::getpid())) {
    std::filesystem::create_directories(files_);
  }
  ~Secure() override { std::filesystem::remove_all(files_); }

  /// The error of connecting, which has to come in time and without a word on stderr.
  error_code refusal(std::string const& url) {
    testing::internal::CaptureStderr();
    auto const begun = Clock::now();
    auto const client = Client::connect(url + "&connect_timeout=1500ms");
    EXPECT_LT(Clock::now() - begun, 3s) << url;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << url;
    EXPECT_FALSE(client) << url;
    return client ? error_code() : client.error();
  }

  std::string const files_;
};

class Tls : public Secure {
 protected:
  Tls() {
    authority("ca");
    authority("other-ca");
    certificate("server");
    certificate("client");
    server_.emplace(
        files_, true,
        std::vector<std::string>{"--cert-file", files_ + "/server.pem", "--key-file", files_ + "/server.key",
                                 "--trusted-ca-file", files_ + "/ca.pem", "--client-cert-auth"});
  }

  void authority(std::string const& name) {
    output_of("cd " + files_ +
              " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout " + name +
              ".key -out " + name + ".pem -days 2 -subj /CN=" + name);
  }
  void certificate(std::string const& name) {
    output_of("cd " + files_ + " && echo subjectAltName=IP:127.0.0.1 > names && " +
              "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout " + name + ".key -out " +
              name + ".csr -subj /CN=" + name + " && openssl x509 -req -in " + name + ".csr -CA ca.pem -CAkey ca.key " +
              "-CAcreateserial -out " + name + ".pem -days 2 -extfile names");
  }
  std::string url(std::string const& query) const { return "etcd://" + server_->address() + "/app?" + query; }
  std::string with(std::string const& ca) const {
    return "tls=true&ca=" + files_ + "/" + ca + ".pem&cert=" + files_ + "/client.pem&key=" + files_ + "/client.key";
  }

  std::optional<Server> server_;
};

TEST_F(Tls, APrivateAuthorityAndAClientCertificateWork) {
  auto client = Client::connect(url(with("ca"))).value();
  auto hold = client.lock("x").acquire().value();
  EXPECT_TRUE(hold.valid());
  EXPECT_EQ(client.lock("x").try_acquire().error(), errc::busy);
  EXPECT_TRUE(hold.release());
}

TEST_F(Tls, AnotherAuthorityIsRefused) {
  auto const ec = refusal(url(with("other-ca")));
  EXPECT_EQ(ec, errc::unavailable) << ec.message();
  EXPECT_NE(ec.message().find(server_->address()), std::string::npos) << ec.message();
}

TEST_F(Tls, NoClientCertificateIsRefused) {
  auto const ec = refusal(url("tls=true&ca=" + files_ + "/ca.pem"));
  EXPECT_EQ(ec, errc::unavailable) << ec.message();
}

TEST_F(Tls, PlainTextIsUnavailable) {
  auto const ec = refusal(url("tls=false"));
  EXPECT_EQ(ec, errc::unavailable) << ec.message();
}

class Users : public Secure {
 protected:
  static constexpr auto kToken = 2s;

  Users() {
    // Tokens of this kind run out after their time however much they are used.
    output_of("cd " + files_ + " && openssl genrsa -out jwt.key 2048 && openssl rsa -in jwt.key -pubout -out jwt.pem");
    server_.emplace(files_, false,
                    std::vector<std::string>{"--auth-token", "jwt,pub-key=" + files_ + "/jwt.pem,priv-key=" + files_ +
                                                                 "/jwt.key,sign-method=RS256,ttl=2s"});
    for (auto const* command :
         {"user add root:root-secret", "role add app", "role grant-permission app readwrite /app/ --prefix=true",
          "user add worker:worker-secret", "user grant-role worker app", "user add stranger:stranger-secret",
          "user grant-role root root", "auth enable"})
      server_->ctl(command);
  }

  Config config(std::string const& user, std::string const& password, std::string const& query = "") {
    auto config =
        Config::from_url("etcd://" + server_->address() + "/app?user=" + user + "&password=" + password + query)
            .value();
    config.log = [this](LogLevel, std::string_view line) {
      std::lock_guard const guard(mutex_);
      log_.append(line).append("\n");
    };
    return config;
  }
  std::string log() {
    std::lock_guard const guard(mutex_);
    return log_;
  }

  std::optional<Server> server_;
  std::mutex mutex_;
  std::string log_;
};

TEST_F(Users, TokensAreRenewedUnseen) {
  auto client = Client::connect(config("worker", "worker-secret", "&ttl=6s")).value();
  auto other = Client::connect(config("worker", "worker-secret", "&ttl=6s")).value();
  auto hold = client.lock("x").acquire().value();
  auto waiting = other.lock("x").async_acquire({}, boost::asio::use_future);
  auto const end = Clock::now() + 4 * kToken;
  for (int i = 0; Clock::now() < end; ++i) {
    auto const each = client.lock("y").acquire_for(5s);
    ASSERT_TRUE(each) << each.error().message();
    ASSERT_TRUE(hold.valid());
    ASSERT_EQ(waiting.wait_for(0s), std::future_status::timeout);
  }
  EXPECT_FALSE(hold.lost().stop_requested());
  EXPECT_TRUE(hold.release());
  EXPECT_GT(waiting.get().fence(), hold.fence());
  EXPECT_EQ(log().find("secret"), std::string::npos);
  EXPECT_EQ(log().find("session lost"), std::string::npos) << log();
}

TEST_F(Users, AChangeOfRightsIsTakenUpUnseen) {
  auto client = Client::connect(config("worker", "worker-secret")).value();
  auto hold = client.lock("x").acquire().value();
  for (auto const* command : {"role add extra", "user grant-role worker extra"})
    server_->ctl(std::string("--user root:root-secret ") + command);
  auto const next = client.lock("y").acquire_for(10s);
  EXPECT_TRUE(next) << next.error().message();
  EXPECT_TRUE(hold.valid());
}

TEST_F(Users, AUserWithoutRightsIsDenied) {
  auto const begun = Clock::now();
  auto const client = Client::connect(config("stranger", "stranger-secret"));
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error(), errc::denied) << client.error().message();
  EXPECT_LT(Clock::now() - begun, 4s) << "at once: trying on does not help";
  EXPECT_EQ(client.error().message().find("secret"), std::string::npos);
  EXPECT_EQ(log().find("secret"), std::string::npos);
}

TEST_F(Users, RightsThatAreTakenAwayDenyTheNextAcquire) {
  auto client = Client::connect(config("worker", "worker-secret")).value();
  EXPECT_TRUE(client.lock("x").acquire_for(10s));
  server_->ctl("--user root:root-secret user revoke-role worker app");
  auto const begun = Clock::now();
  auto const refused = client.lock("x").acquire_for(30s);
  ASSERT_FALSE(refused);
  EXPECT_LT(Clock::now() - begun, 15s) << "not only at its deadline";
  EXPECT_EQ(refused.error(), errc::denied) << refused.error().message();
}

TEST_F(Users, AWrongPasswordIsDenied) {
  auto const client = Client::connect(config("worker", "wrong-secret"));
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error(), errc::denied) << client.error().message();
  EXPECT_EQ(client.error().message().find("secret"), std::string::npos);
  EXPECT_EQ(log().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::test
