#include <boost/asio/use_future.hpp>
#include <future>

#include "tests/etcd/cluster.hpp"
#include "tests/etcd/proxy.hpp"

// Commits whose answers are lost, or that come late.

namespace holdfast::test {
namespace {

class EtcdCommit : public Etcd {
 protected:
  EtcdCommit() : key_("/data" + root_), proxy_(members().at(0)) {}

  std::string value() { return other_.read(key_).value().value_or("absent"); }
  /// How often the key was written since it was made.
  int times_written() {
    auto const fields = etcdctl("get -w fields " + key_);
    auto const at = fields.find("\"Version\" : ");
    return at == std::string::npos ? 0 : std::stoi(fields.substr(at + 12));
  }

  std::vector<std::string> const commit_{"@commit"};
  std::string const key_;
  Proxy proxy_;
  Client other_ = connect("ttl=60s");
  Client client_ = Client::connect("etcd://" + proxy_.address() + root_ + "?ttl=30s&request_timeout=4s").value();
  Hold hold_ = client_.lock("x").acquire().value();
};

TEST_F(EtcdCommit, OneThatDidNotGetThroughIsSentAgain) {
  proxy_.strike_at(commit_, Proxy::When::before);
  EXPECT_TRUE(hold_.commit(Commit().put(key_, "1")));
  EXPECT_TRUE(proxy_.has_struck());
  EXPECT_EQ(value(), "1");
}

TEST_F(EtcdCommit, OneWhoseAnswerIsLostIsDoneOnce) {
  proxy_.strike_at(commit_, Proxy::When::after);
  auto done = hold_.async_commit(Commit().if_absent(key_).put(key_, "1"), boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return value() == "1"; }));
  proxy_.cut();
  EXPECT_NO_THROW(done.get());
  EXPECT_EQ(times_written(), 1);
  EXPECT_TRUE(hold_.commit(Commit().if_equals(key_, "1").put(key_, "2"))) << "its receipt's name is used again";
}

TEST_F(EtcdCommit, OneDeliveredLateIsRefused) {
  proxy_.strike_at(commit_, Proxy::When::late);
  EXPECT_TRUE(hold_.commit(Commit().put(key_, "old")));
  ASSERT_TRUE(proxy_.has_struck());
  EXPECT_TRUE(hold_.commit(Commit().put(key_, "new")));
  auto const txns = [] { return counted({"grpc_server_handled_total{", "grpc_method=\"Txn\""}); };
  auto const before = txns();
  proxy_.deliver();
  ASSERT_TRUE(eventually([&] { return txns() == before + 1; }));
  EXPECT_EQ(value(), "new");
  EXPECT_EQ(times_written(), 2);
}

TEST_F(EtcdCommit, OneWhoseFateIsUnknownInTimeIsToldWhenAskedAgain) {
  proxy_.strike_at(commit_, Proxy::When::after);
  auto const commit = Commit().if_absent(key_).put(key_, "1");
  proxy_.mute(true);
  EXPECT_EQ(hold_.commit(commit).error(), errc::unknown_outcome);
  EXPECT_EQ(value(), "1");
  proxy_.mute(false);
  proxy_.cut();
  auto const again = hold_.commit(commit);
  EXPECT_TRUE(again) << again.error().message();
  EXPECT_EQ(times_written(), 1);
  EXPECT_EQ(hold_.commit(commit).error(), errc::conflict) << "it was told: this is a new one";
}

TEST_F(EtcdCommit, OneThatCannotBeSentIsUnavailableAndNeverDone) {
  proxy_.target("127.0.0.1:1");
  proxy_.cut();
  ASSERT_TRUE(eventually([&] { return client_.inspect("x").error() == errc::unavailable; }));
  EXPECT_EQ(hold_.commit(Commit().put(key_, "1")).error(), errc::unavailable);
  proxy_.target(members().at(0));
  ASSERT_TRUE(eventually([&] { return client_.inspect("x").has_value(); }));
  ASSERT_TRUE(hold_.valid());
  EXPECT_TRUE(hold_.commit(Commit().if_absent(key_)));
}

TEST_F(EtcdCommit, AHoldWhoseLeaseWasRevokedCommitsNothing) {
  auto const entry = hold_.sequencer().entry();
  etcdctl("lease revoke " + entry.substr(0, entry.find('-')));
  EXPECT_EQ(hold_.commit(Commit().put(key_, "1")).error(), errc::lost);
  EXPECT_EQ(value(), "absent");
}

TEST_F(EtcdCommit, AHoldWhoseEntryWasRemovedCommitsNothing) {
  etcdctl("del --prefix " + root_ + "/x/");
  EXPECT_EQ(hold_.commit(Commit().put(key_, "1")).error(), errc::lost);
  EXPECT_EQ(value(), "absent");
}

TEST_F(EtcdCommit, ItTakesOneCallAndLeavesNothingOfItsOwn) {
  auto const calls = [] { return counted({"grpc_server_handled_total{", "grpc_type=\"unary\""}); };
  auto const before = calls();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(hold_.commit(Commit().put(key_, std::to_string(i))));
  EXPECT_EQ(calls() - before, 10);
  EXPECT_TRUE(client_.close());
  EXPECT_EQ(etcdctl("get --prefix --keys-only " + root_ + "/@commit/"), "");
  EXPECT_EQ(value(), "9");
}

}  // namespace
}  // namespace holdfast::test
