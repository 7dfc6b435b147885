#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <future>
#include <iostream>
#include <set>

#include "etcd/rpc.grpc.pb.h"
#include "tests/etcd/cluster.hpp"

// What an acquire costs the cluster, counted at its servers.

namespace holdfast::test {
namespace {

using Clock = std::chrono::steady_clock;

double handled(std::string const& method) {
  return counted({"grpc_server_handled_total{", "grpc_method=\"" + method + "\""});
}

double watch_messages() { return counted({"grpc_server_msg_sent_total{", "grpc_method=\"Watch\""}); }

/// Calls of any kind that were answered, streams not counted.
double all_calls() { return counted({"grpc_server_handled_total{", "grpc_type=\"unary\""}); }

TEST_F(Etcd, AnUncontendedCycleIsTwoTransactionsAndNothingElse) {
  auto client = connect("ttl=60s");
  auto const txns = handled("Txn"), calls = all_calls();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(client.lock("x").acquire().value().release());
  EXPECT_EQ(handled("Txn") - txns, 100);
  EXPECT_EQ(all_calls() - calls, 100);
}

TEST_F(Etcd, AHandOverFromTheOnlyOneAheadCostsNoCall) {
  auto a = connect("ttl=60s"), b = connect("ttl=60s");
  auto held = a.lock("x").acquire().value();
  auto waiting = b.lock("x").async_acquire({}, boost::asio::use_future);
  ASSERT_TRUE(eventually([&] { return a.inspect("x")->size() == 2; }));
  std::this_thread::sleep_for(200ms);  // not for a race: so that what belongs to the wait is not counted
  auto const calls = all_calls(), txns = handled("Txn");
  EXPECT_TRUE(held.release());
  auto const next = waiting.get();
  EXPECT_TRUE(next.valid());
  EXPECT_EQ(handled("Txn") - txns, 1);
  EXPECT_EQ(all_calls() - calls, 1);
}

TEST_F(Etcd, AReleaseWakesAFewClientsHoweverManyWait) {
  constexpr int kWaiting = 30;
  auto holder = connect("ttl=60s");
  auto held = holder.lock("x").acquire().value();
  std::vector<Client> clients;
  std::vector<std::future<Hold>> waiting;
  for (int i = 0; i < kWaiting; ++i) {
    clients.push_back(connect("ttl=60s"));
    waiting.push_back(clients.back().lock("x").async_acquire({}, boost::asio::use_future));
    ASSERT_TRUE(eventually([&] { return holder.inspect("x")->size() == static_cast<std::size_t>(i) + 2; }));
  }
  std::this_thread::sleep_for(200ms);
  auto before = watch_messages();
  EXPECT_TRUE(held.release());
  for (auto& each : waiting) {
    held = each.get();
    EXPECT_TRUE(held.valid());
    std::this_thread::sleep_for(5ms);
    auto const now = watch_messages();
    EXPECT_LE(now - before, 16 + 2) << "two beside the events: one watch may be ended and one begun";
    before = now;
    EXPECT_TRUE(held.release());
  }
}

TEST_F(Etcd, NamesOfKeysAreUsedAgain) {
  auto client = connect();
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    auto hold = client.lock("x").acquire().value();
    if (i % 50 == 0)
      for (auto const& key : keys("x")) seen.insert(key);
  }
  EXPECT_LE(seen.size(), 4u) << "one, and a few more while the last releases are on their way";
}

using Milliseconds = std::chrono::duration<double, std::milli>;

Milliseconds median(std::vector<Milliseconds> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Two clients in turn: from one's call of release until the other holds.
Milliseconds hand_over(Client& a, Client& b, int rounds) {
  std::vector<Milliseconds> times;
  auto hold = a.lock("x").acquire().value();
  for (int i = 0; i < rounds; ++i) {
    std::promise<std::pair<Hold, Clock::time_point>> next;
    (i % 2 ? a : b).lock("x").async_acquire({}, [&](error_code, Hold granted) {
      next.set_value({std::move(granted), Clock::now()});
    });
    while (a.inspect("x")->size() != 2) std::this_thread::yield();
    auto const begun = Clock::now();
    EXPECT_TRUE(hold.release());
    auto [granted, when] = next.get_future().get();
    times.emplace_back(when - begun);
    hold = std::move(granted);
  }
  return median(std::move(times));
}

/// A plain delete, from its call until the event of a watch that was there before: by the wire alone, without a lock.
Milliseconds plain_delete(std::string const& root, int rounds) {
  auto const target = members().at(0);
  auto const stub = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
  auto const kv = etcdserverpb::KV::NewStub(stub);
  auto const watcher = etcdserverpb::Watch::NewStub(stub);
  grpc::ClientContext context;
  auto const stream = watcher->Watch(&context);
  etcdserverpb::WatchRequest watch;
  std::string const key = root + "/plain";
  watch.mutable_create_request()->set_key(key);
  watch.mutable_create_request()->add_filters(etcdserverpb::WatchCreateRequest::NOPUT);
  stream->Write(watch);
  etcdserverpb::WatchResponse told;
  EXPECT_TRUE(stream->Read(&told) && told.created());
  std::vector<Milliseconds> times;
  for (int i = 0; i < rounds; ++i) {
    etcdserverpb::PutRequest put;
    put.set_key(key);
    etcdserverpb::PutResponse was_put;
    grpc::ClientContext putting;
    EXPECT_TRUE(kv->Put(&putting, put, &was_put).ok());
    etcdserverpb::TxnRequest txn;
    txn.add_success()->mutable_request_delete_range()->set_key(key);
    auto const begun = Clock::now();
    std::thread sender([&] {
      etcdserverpb::TxnResponse done;
      grpc::ClientContext deleting;
      EXPECT_TRUE(kv->Txn(&deleting, txn, &done).ok());
    });
    EXPECT_TRUE(stream->Read(&told));
    times.emplace_back(Clock::now() - begun);
    sender.join();
  }
  context.TryCancel();
  stream->Finish();
  return median(std::move(times));
}

TEST_F(Etcd, TwoThatAlternateAreNotHeldUpByTheServersCatchingUp) {
  auto a = connect("ttl=60s"), b = connect("ttl=60s"), busy = connect("ttl=60s");
  std::atomic<bool> stop{false};
  std::jthread const writer([&] {
    while (!stop) (void)busy.lock("elsewhere").acquire().value().release();
  });
  // Turn by turn, so that whatever else this machine does disturbs both alike.
  std::vector<Milliseconds> ours, plain;
  for (int i = 0; i < 5; ++i) {
    ours.push_back(hand_over(a, b, 40));
    plain.push_back(plain_delete(root_, 40));
  }
  stop = true;
  std::cout << "median hand-over " << median(ours).count() << " ms, plain delete to event " << median(plain).count()
            << " ms\n";
  EXPECT_LT(median(ours), 2 * median(plain) + Milliseconds(0.2));
}

}  // namespace
}  // namespace holdfast::test
