#include "etcd/watches.hpp"

#include <deque>
#include <mutex>

#include "common/timers.hpp"
#include "tests/etcd/cluster.hpp"

// What a watch may tell, and when: on a real member's connection, with some of what it says made up.

namespace holdfast::test {
namespace {

using namespace detail;
using namespace detail::etcd;

/// Runs what comes from the connection when it is told to.
class ByHand final : public Host {
 public:
  void up(SessionInfo) override {}
  void proven(TimePoint) override {}
  void suspect() override {}
  void resumed() override {}
  void lost() override {}
  void removed(std::string const&, EntryRef const&) override {}
  void failed(error_code) override {}
  TimePoint now() const noexcept override { return BootClock::now(); }
  TimerId at(TimePoint when, std::function<void()> what) override { return timers_.add(when, std::move(what)); }
  void cancel(TimerId timer) override { timers_.cancel(timer); }
  void defer(std::function<void()> what) override { what(); }
  void post(std::function<void()> what) override {
    std::lock_guard const guard(mutex_);
    posted_.push_back(std::move(what));
  }
  boost::asio::io_context& loop() override { return loop_; }
  void log(LogLevel, std::string) override {}

  void turn() {
    std::deque<std::function<void()>> posted;
    {
      std::lock_guard const guard(mutex_);
      posted = std::exchange(posted_, {});
    }
    for (auto const& each : posted) each();
    while (auto const due = timers_.take_due(now())) due();
  }

 private:
  boost::asio::io_context loop_;
  Timers timers_;
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;
};

class EtcdWatches : public Etcd {
 protected:
  static constexpr std::int64_t kOnStream = 2;  ///< the number of the first watch: its own is 1

  EtcdWatches() {
    etcdctl("put " + root_ + "/x/a v");
    members_.start();
    watches_.add({root_ + "/x/", root_ + "/x0"}, 0,
                 {[this](Watches::Present const& present) { say("synced " + std::to_string(present.keys.size())); },
                  [this](std::string const& key, std::int64_t) { say("deleted " + key.substr(key.rfind('/') + 1)); },
                  [this] { say("broken"); }});
  }

  void say(std::string const& word) { said_.push_back(word); }
  bool comes_to(std::vector<std::string> const& words) {
    return eventually([&] {
      host_.turn();
      return said_ == words;
    });
  }
  pb::WatchResponse deletion() const {
    pb::WatchResponse response;
    response.set_watch_id(kOnStream);
    auto& event = *response.add_events();
    event.set_type(pb::Event::DELETE);
    event.mutable_kv()->set_key(root_ + "/x/a");
    event.mutable_kv()->set_mod_revision(1'000'000'000);
    return response;
  }

  std::vector<std::string> said_;
  ByHand host_;
  Config const config_ = Config::from_url("etcd://" + test::members().at(0) + root_).value();
  Members members_{config_,
                   host_,
                   {[](Wire&) {},
                    [] {},
                    [](error_code) {},
                    {[this](pb::WatchResponse const& response) { watches_.heard(response); },
                     [](pb::LeaseKeepAliveResponse const&) {},
                     {}}}};
  Watches watches_{host_, members_};
};

TEST_F(EtcdWatches, ADepartureToldBeforeTheReadCameIsToldAfterIt) {
  watches_.heard(deletion());
  EXPECT_TRUE(said_.empty()) << "the read might bring back who is gone";
  EXPECT_TRUE(comes_to({"synced 1", "deleted a"}));
}

TEST_F(EtcdWatches, ACancelledWatchIsNoDepartureAndIsBegunAnew) {
  ASSERT_TRUE(comes_to({"synced 1"}));
  pb::WatchResponse cancelled;
  cancelled.set_watch_id(kOnStream);
  cancelled.set_canceled(true);
  cancelled.set_compact_revision(1'000'000'000);
  watches_.heard(cancelled);
  EXPECT_EQ(said_, (std::vector<std::string>{"synced 1", "broken"}));
  EXPECT_TRUE(comes_to({"synced 1", "broken", "synced 1"}));
  watches_.heard(deletion());  // of the watch that is no more
  EXPECT_TRUE(comes_to({"synced 1", "broken", "synced 1"}));
  etcdctl("del " + root_ + "/x/a");
  EXPECT_TRUE(comes_to({"synced 1", "broken", "synced 1", "deleted a"}));
}

}  // namespace
}  // namespace holdfast::test
