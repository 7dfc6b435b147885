#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <future>

#include "tests/conformance/place.hpp"

namespace asio = boost::asio;

namespace holdfast::test {
namespace {

using Outcome = std::pair<error_code, Hold>;

std::future<Outcome> begin(Lock const& lock, AcquireOptions options = {}) {
  auto const promise = std::make_shared<std::promise<Outcome>>();
  lock.async_acquire(std::move(options), [promise](error_code ec, Hold hold) {
    promise->set_value({ec, std::move(hold)});
  });
  return promise->get_future();
}

TEST_P(Conformance, AnUncontendedAcquireIsGrantedAndValid) {
  auto client = connect();
  auto hold = client.lock("orders/42").acquire().value();
  EXPECT_TRUE(hold.valid());
  EXPECT_GT(hold.valid_for(), 1s);
  EXPECT_GT(hold.fence().token(), 0u);
  EXPECT_FALSE(hold.lost().stop_requested());
  EXPECT_TRUE(hold.release());
  EXPECT_FALSE(hold.valid());
}

TEST_P(Conformance, ASecondClientFindsItBusy) {
  auto a = connect(), b = connect();
  auto hold = a.lock("x").acquire().value();
  EXPECT_EQ(b.lock("x").try_acquire().error(), errc::busy);
  EXPECT_TRUE(hold.release());
  EXPECT_TRUE(b.lock("x").try_acquire());
}

TEST_P(Conformance, TwoAcquiresThroughOneClientExcludeEachOther) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  EXPECT_EQ(client.lock("x").try_acquire().error(), errc::busy);
  EXPECT_EQ(client.lock("x").acquire_for(short_wait()).error(), errc::timed_out);
  EXPECT_TRUE(client.lock("y").try_acquire());
}

TEST_P(Conformance, FencesGrowInTheOrderOfTheGrants) {
  auto a = connect(), b = connect();
  Fence last;
  for (int i = 0; i < 20; ++i) {
    auto hold = (i % 2 ? a : b).lock("x").acquire().value();
    EXPECT_GT(hold.fence(), last);
    last = hold.fence();
  }
}

TEST_P(Conformance, TheEpochOfTheConfigurationIsInTheFence) {
  Fence const before = connect().lock("x").acquire().value().fence();
  Fence const after = connect("fence_epoch=7").lock("x").acquire().value().fence();
  EXPECT_EQ(after.epoch(), 7u);
  EXPECT_GT(after, before);
}

TEST_P(Conformance, WaitersAreServedInTheOrderTheyCame) {
  auto a = connect(), b = connect();
  auto hold = a.lock("x").acquire().value();
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::future<void>> waiters;
  for (int i = 0; i < 8; ++i) {
    waiters.push_back(std::async(std::launch::async, [&, i] {
      auto mine = (i % 3 ? a : b).lock("x").acquire().value();
      std::lock_guard const guard(mutex);
      order.push_back(i);
    }));
    ASSERT_TRUE(eventually([&] { return a.inspect("x")->size() == static_cast<std::size_t>(i) + 2; }));
  }
  EXPECT_TRUE(hold.release());
  for (auto& waiter : waiters) waiter.get();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(eventually([&] { return a.inspect("x")->empty(); }));
}

TEST_P(Conformance, ManyThreadsOfManyClientsNeverOverlap) {
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(connect());
  std::atomic<int> inside{0};
  Fence last;
  std::vector<std::thread> workers;
  for (int i = 0; i < 9; ++i)
    workers.emplace_back([&, i] {
      for (int round = 0; round < 30; ++round) {
        auto hold = clients[static_cast<std::size_t>(i) % 3].lock("hot").acquire().value();
        EXPECT_EQ(inside.fetch_add(1), 0);
        EXPECT_TRUE(hold.valid());
        EXPECT_GT(hold.fence(), last);
        last = hold.fence();
        inside.fetch_sub(1);
        if (round % 2) {
          EXPECT_TRUE(hold.release());
        }
      }
    });
  for (auto& worker : workers) worker.join();
  EXPECT_TRUE(eventually([&] { return clients[0].names()->empty(); }));
}

TEST_P(Conformance, ATimedOutWaiterLeavesNothingBehind) {
  auto a = connect(), b = connect();
  auto hold = a.lock("x").acquire().value();
  auto const begun = std::chrono::steady_clock::now();
  EXPECT_EQ(b.lock("x").acquire_for(short_wait()).error(), errc::timed_out);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, short_wait());
  EXPECT_TRUE(eventually([&] { return a.inspect("x")->size() == 1; }));
}

TEST_P(Conformance, AWaiterInTheMiddleThatLeavesDoesNotStrandTheOneBehindIt) {
  auto a = connect(), b = connect(), c = connect();
  auto hold = a.lock("x").acquire().value();
  std::stop_source give_up;
  auto middle = std::async(std::launch::async, [&] {
    return b.lock("x").acquire({{}, give_up.get_token(), {}}).has_error();
  });
  ASSERT_TRUE(eventually([&] { return a.inspect("x")->size() == 2; }));
  auto last = std::async(std::launch::async, [&] { return c.lock("x").acquire_for(10s).has_value(); });
  ASSERT_TRUE(eventually([&] { return a.inspect("x")->size() == 3; }));
  give_up.request_stop();
  EXPECT_TRUE(middle.get());
  EXPECT_TRUE(eventually([&] { return a.inspect("x")->size() == 2; }));
  EXPECT_TRUE(hold.release());
  EXPECT_TRUE(last.get());
}

TEST_P(Conformance, AStopTokenEndsTheWait) {
  auto a = connect();
  auto hold = a.lock("x").acquire().value();
  std::stop_source stop;
  std::jthread const stopper([&] {
    EXPECT_TRUE(eventually([&] { return a.inspect("x")->size() == 2; }));
    stop.request_stop();
  });
  EXPECT_EQ(a.lock("x").acquire({{}, stop.get_token(), {}}).error(), errc::cancelled);
  EXPECT_EQ(a.lock("y").acquire({{}, stop.get_token(), {}}).error(), errc::cancelled);
}

TEST_P(Conformance, ADestroyedHoldIsReleased) {
  auto a = connect(), b = connect();
  { auto hold = a.lock("x").acquire().value(); }
  EXPECT_TRUE(b.lock("x").acquire_for(10s));
}

TEST_P(Conformance, AnEmptyHoldIsHarmless) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  Hold moved = std::move(hold);
  for (Hold* empty : {&hold}) {
    EXPECT_FALSE(empty->valid());
    EXPECT_EQ(empty->valid_for(), 0s);
    EXPECT_TRUE(empty->lost().stop_requested());
    EXPECT_EQ(empty->release().error(), errc::invalid_argument);
    EXPECT_EQ(empty->async_release(asio::use_future).wait_for(10s), std::future_status::ready);
  }
  EXPECT_TRUE(moved.valid());
}

TEST_P(Conformance, ATokenTakenBeforeACleanReleaseNeverFires) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  auto const token = hold.lost();
  EXPECT_TRUE(hold.release());
  EXPECT_TRUE(client.close());
  EXPECT_FALSE(token.stop_requested());
}

TEST_P(Conformance, InspectShowsHolderAndWaitersWithLabelAndFence) {
  auto a = connect("label=first");
  auto hold = a.lock("x").acquire().value();
  auto waiting = a.lock("x").async_acquire({{}, {}, "second"}, asio::use_future);
  ASSERT_TRUE(eventually([&] { return a.inspect("x")->size() == 2; }));
  auto const line = a.inspect("x").value();
  EXPECT_EQ(line[0].label, "first");
  EXPECT_TRUE(line[0].holds);
  EXPECT_EQ(line[0].fence, hold.fence());
  EXPECT_EQ(line[1].label, "second");
  EXPECT_FALSE(line[1].holds);
  EXPECT_EQ(a.names().value(), std::vector<std::string>{"x"});
  EXPECT_TRUE(hold.release());
  EXPECT_EQ(waiting.get().fence(), line[1].fence);
}

TEST_P(Conformance, ASequencerIsCurrentWhileHeldAndStaleAfterwards) {
  auto a = connect(), b = connect();
  auto hold = a.lock("a/b c").acquire().value();
  auto const sequencer = Sequencer::parse(hold.sequencer().encode()).value();
  EXPECT_EQ(sequencer.lock(), "a/b c");
  EXPECT_TRUE(b.check(sequencer).value());
  EXPECT_TRUE(hold.release());
  EXPECT_FALSE(b.check(sequencer).value());
  auto again = a.lock("a/b c").acquire().value();
  EXPECT_FALSE(b.check(sequencer).value());
  Sequencer const foreign("memory:elsewhere", "a/b c", sequencer.entry(), sequencer.fence());
  EXPECT_EQ(b.check(foreign).error(), errc::invalid_argument);
}

TEST_P(Conformance, BadArgumentsAreRefusedByName) {
  auto client = connect();
  EXPECT_EQ(client.lock("").acquire().error(), errc::invalid_argument);
  EXPECT_EQ(client.lock(std::string(201, 'x')).try_acquire().error(), errc::invalid_argument);
  EXPECT_EQ(client.lock("\xff\xfe").acquire().error(), errc::invalid_argument);
  EXPECT_EQ(client.lock("x").acquire_for(-1s).error(), errc::invalid_argument);
  EXPECT_EQ(client.inspect("").error(), errc::invalid_argument);
  for (auto const* name : {".", "..", "a/../b", "%2E", "ünï", "a b", "_c_-lock-0000000001"})
    EXPECT_TRUE(client.lock(name).try_acquire()) << name;
}

// ---- asynchronous forms

TEST_P(Conformance, ACallbackRunsOnTheNotificationThreadAndNeverInsideTheCall) {
  auto client = connect();
  std::promise<std::thread::id> where;
  client.lock("x").async_acquire({}, [&](error_code ec, Hold hold) {
    EXPECT_FALSE(ec);
    EXPECT_TRUE(hold.valid());
    EXPECT_EQ(client.lock("y").acquire().error(), errc::would_deadlock);
    EXPECT_EQ(client.inspect("y").error(), errc::would_deadlock);
    EXPECT_EQ(hold.release().error(), errc::would_deadlock);
    where.set_value(std::this_thread::get_id());
  });
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
  EXPECT_TRUE(client.lock("x").acquire_for(10s));
}

TEST_P(Conformance, AFutureGivesTheHoldOrThrows) {
  auto client = connect();
  auto hold = client.lock("x").async_acquire({}, asio::use_future).get();
  EXPECT_TRUE(hold.valid());
  EXPECT_THROW(client.lock("x").async_acquire({20ms, {}, {}}, asio::use_future).get(), boost::system::system_error);
  hold.async_release(asio::use_future).get();
  EXPECT_TRUE(client.lock("x").try_acquire());
}

TEST_P(Conformance, ACoroutineRunsOnItsOwnExecutorWhichStaysBusyUntilThen) {
  auto client = connect();
  asio::io_context context;
  int steps = 0;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        auto const here = std::this_thread::get_id();
        auto hold = co_await client.lock("x").async_acquire({}, asio::use_awaitable);
        EXPECT_EQ(std::this_thread::get_id(), here);
        ++steps;
        co_await hold.async_release(asio::use_awaitable);
        ++steps;
      },
      asio::detached);
  context.run();
  EXPECT_EQ(steps, 2);
}

TEST_P(Conformance, AWaitingCoroutineIsCancelledByATimer) {
  using namespace asio::experimental::awaitable_operators;
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  asio::io_context context;
  bool cancelled = false;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        asio::steady_timer timer(context, 30ms);
        auto const result =
            co_await (client.lock("x").async_acquire({}, asio::use_awaitable) || timer.async_wait(asio::use_awaitable));
        cancelled = result.index() == 1;
      },
      asio::detached);
  context.run();
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(eventually([&] { return client.inspect("x")->size() == 1; }));
}

TEST_P(Conformance, EachAsioCancellationTypeEndsTheWait) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  for (auto const type :
       {asio::cancellation_type::terminal, asio::cancellation_type::partial, asio::cancellation_type::total}) {
    asio::cancellation_signal signal;
    std::promise<error_code> outcome;
    client.lock("x").async_acquire(
        {}, asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, Hold) { outcome.set_value(ec); }));
    signal.emit(type);
    EXPECT_EQ(outcome.get_future().get(), errc::cancelled);
  }
  EXPECT_TRUE(eventually([&] { return client.inspect("x")->size() == 1; }));
}

TEST_P(Conformance, ACompletionThatCannotRunReleasesItsHold) {
  auto client = connect();
  {
    asio::io_context never_run;
    auto first = client.lock("x").acquire().value();
    client.lock("x").async_acquire({}, asio::bind_executor(never_run, [](error_code, Hold) {}));
    ASSERT_TRUE(eventually([&] { return client.inspect("x")->size() == 2; }));
    EXPECT_TRUE(first.release());  // by now its completion was handed to an executor that never runs it
  }
  EXPECT_TRUE(client.lock("x").acquire_for(10s));
}

TEST_P(Conformance, AGrantThatCrossesItsCancellationHasOneOutcome) {
  auto client = connect();
  for (int i = 0; i < 200; ++i) {
    auto hold = client.lock("x").acquire().value();
    std::stop_source stop;
    auto waiting = begin(client.lock("x"), {{}, stop.get_token(), {}});
    std::jthread const stopper([&] { stop.request_stop(); });
    hold = Hold();
    auto const [ec, granted] = waiting.get();
    EXPECT_EQ(!ec, granted.valid());
    EXPECT_TRUE(!ec || ec == errc::cancelled);
  }
  EXPECT_TRUE(client.lock("x").acquire_for(10s));
}

// ---- the end

TEST_P(Conformance, CloseEndsWaitersAndHoldsAndHandsOverAtOnce) {
  auto a = connect("ttl=60s"), b = connect();
  auto held = a.lock("x").acquire().value();
  auto const token = held.lost();
  auto waiting = begin(a.lock("x"));
  auto next = b.lock("x").async_acquire({}, asio::use_future);
  ASSERT_TRUE(eventually([&] { return b.inspect("x")->size() == 3; }));
  auto const begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(a.close());
  EXPECT_EQ(waiting.get().first, errc::closed);
  EXPECT_FALSE(held.valid());
  EXPECT_TRUE(held.lost().stop_requested());
  EXPECT_TRUE(eventually([&] { return token.stop_requested(); }));
  EXPECT_TRUE(next.get().valid());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
  EXPECT_EQ(a.lock("x").acquire().error(), errc::closed);
  EXPECT_EQ(a.inspect("x").error(), errc::closed);
  EXPECT_EQ(held.release().error(), errc::closed);
}

TEST_P(Conformance, TheLastHandleToGoEndsTheSession) {
  auto b = connect();
  {
    auto a = connect("ttl=60s");
    auto hold = a.lock("x").acquire().value();
    { auto dropped = std::move(a); }  // the hold keeps the session
    EXPECT_TRUE(hold.valid());
    EXPECT_EQ(b.lock("x").try_acquire().error(), errc::busy);
  }
  EXPECT_TRUE(b.lock("x").acquire_for(10s));
}

TEST_P(Conformance, AClientMayBeClosedOnItsOwnNotificationThread) {
  auto client = connect();
  std::promise<bool> closed;
  client.lock("x").async_acquire({}, [&](error_code, Hold hold) {
    hold = Hold();
    closed.set_value(client.close().has_value());
  });
  EXPECT_TRUE(closed.get_future().get());
  EXPECT_TRUE(connect().lock("x").acquire_for(10s));
}

TEST_P(Conformance, ACallbackThatBlocksForSeveralTtlsCostsNoHold) {
  auto client = connect("ttl=" + std::to_string(short_ttl().count()) + "ms");
  auto hold = client.lock("x").acquire().value();
  std::promise<void> blocked, go_on;
  client.lock("y").async_acquire({}, [&](error_code, Hold) {
    blocked.set_value();
    go_on.get_future().wait();
  });
  blocked.get_future().wait();
  auto const end = std::chrono::steady_clock::now() + 5 * short_ttl() / 2;
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_TRUE(hold.valid());
    ASSERT_FALSE(hold.lost().stop_requested());
    std::this_thread::sleep_for(5ms);
  }
  go_on.set_value();
  EXPECT_TRUE(hold.release());
}

TEST_P(Conformance, AForkedChildIsRefusedAndTheParentUndisturbed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator may be locked for ever in a child of many threads; the dev build runs this";
#endif
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  pid_t const child = ::fork();
  if (child == 0) {
    std::promise<error_code> told;
    client.lock("y").async_acquire({}, [&](error_code ec, Hold) { told.set_value(ec); });
    if (told.get_future().get() != errc::closed) ::_exit(2);
    bool const refused = client.lock("y").try_acquire().error() == errc::closed && !hold.valid() &&
                         client.inspect("x").error() == errc::closed && client.close().error() == errc::closed &&
                         hold.release().error() == errc::closed;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(hold.valid());
  EXPECT_EQ(client.lock("x").try_acquire().error(), errc::busy);
  EXPECT_TRUE(hold.release());
}

TEST_P(Conformance, AsyncCallsOnAClosedClientAreAnswered) {
  auto client = connect();
  auto hold = client.lock("x").acquire().value();
  ASSERT_TRUE(client.close());
  std::promise<error_code> acquired, released;
  client.lock("x").async_acquire({}, [&](error_code ec, Hold) { acquired.set_value(ec); });
  hold.async_release([&](error_code ec) { released.set_value(ec); });
  EXPECT_EQ(acquired.get_future().get(), errc::closed);
  EXPECT_EQ(released.get_future().get(), errc::closed);
}

TEST_P(Conformance, WhoDropsTheLastHandleInACallbackStillHasTheOthersTold) {
  auto holder = connect();
  auto const hold = holder.lock("x").acquire().value();
  std::promise<error_code> waiter;
  {
    auto box = std::make_shared<std::optional<Client>>(connect());
    (*box)->lock("x").async_acquire({}, [&](error_code ec, Hold) { waiter.set_value(ec); });
    ASSERT_TRUE(eventually([&] { return holder.inspect("x")->size() == 2; }));
    (*box)->lock("y").async_acquire({}, [box](error_code, Hold mine) {
      mine = Hold();
      box->reset();
    });
  }
  EXPECT_EQ(waiter.get_future().get(), errc::closed);
}

TEST_P(Conformance, DurationsBeyondAllMeasureAreLongNotNegative) {
  auto client = connect();
  auto const hold = client.lock("x").acquire_for(std::chrono::hours::max());
  ASSERT_TRUE(hold);
  EXPECT_EQ(hold->lost(std::chrono::hours::max()).stop_requested(), has_lease());
  EXPECT_EQ(client.lock("x").acquire_for(std::chrono::hours::min()).error(), errc::invalid_argument);
}

TEST_P(Conformance, AMovedFromClientOrLockIsStillOne) {
  auto client = connect();
  auto const moved = std::move(client);
  auto lock = client.lock("x");
  auto const other = std::move(lock);
  EXPECT_TRUE(lock.try_acquire());
}

INSTANTIATE_TEST_SUITE_P(Lock, Conformance, testing::ValuesIn(backends()), [](auto const& each) { return each.param; });

}  // namespace
}  // namespace holdfast::test
