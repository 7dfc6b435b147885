#pragma once

#include "tests/unit/file_fixture.hpp"

namespace holdfast::detail::file {

/// A host that is driven by hand, with a backend on it.
class TestHost final : public Host {
 public:
  explicit TestHost(std::string const& root, std::chrono::milliseconds ttl = 300ms) {
    Config config;
    config.scheme = "file";
    config.root = root;
    config.ttl = ttl;
    backend = make_file_backend(config, *this);
  }
  ~TestHost() override {
    backend.reset();
    run_deferred();
  }

  void up(SessionInfo info) override { session = std::move(info); }
  void proven(TimePoint) override {}
  void suspect() override {}
  void resumed() override {}
  void lost() override { ++losses; }
  void removed(std::string const& line, EntryRef const& entry) override { removals.push_back({line, entry}); }
  void failed(error_code why) override { failure = why; }
  TimePoint now() const noexcept override { return BootClock::now(); }
  TimerId at(TimePoint when, std::function<void()> what) override { return timers_.add(when, std::move(what)); }
  void cancel(TimerId timer) override { timers_.cancel(timer); }
  void defer(std::function<void()> what) override { deferred_.push_back(std::move(what)); }
  void post(std::function<void()> what) override { posted_.push_back(std::move(what)); }
  boost::asio::io_context& loop() override { return loop_; }
  void log(LogLevel, std::string) override {}

  /// One round of everything that is due.
  void turn() {
    loop_.restart();
    loop_.poll();
    for (auto& each : std::exchange(posted_, {})) {
      each();
      run_deferred();
    }
    while (auto due = timers_.take_due(now())) {
      due();
      run_deferred();
    }
    run_deferred();
  }

  template <class Condition>
  bool until(Condition const& condition, std::chrono::milliseconds limit = 10s) {
    auto const end = now() + limit;
    while (!condition()) {
      if (now() > end) return false;
      turn();
      if (condition()) return true;
      loop_.restart();
      loop_.run_one_for(1ms);
    }
    return true;
  }

  template <class T, class Verb>
  Result<T> ask(Verb const& verb) {
    std::optional<Result<T>> result;
    verb([&](Result<T> reply) { result = std::move(reply); });
    EXPECT_FALSE(result) << "no reply inside the verb";
    run_deferred();
    EXPECT_TRUE(until([&] { return result.has_value(); }));
    return result.value();
  }

  bool start() {
    backend->start();
    run_deferred();
    return until([&] { return session.has_value() || failure; }) && session.has_value();
  }
  Result<Joined> join(std::string const& line, bool only_if_free = false, Rule rule = kExclusive,
                      Kind kind = Kind::lock) {
    return ask<Joined>([&](auto reply) { backend->join({line, kind, rule, "label", only_if_free}, reply); });
  }
  Result<void> leave(std::string const& line, EntryRef const& self, bool was_first = true) {
    return ask<void>([&](auto reply) { backend->leave(line, self, was_first, reply); });
  }
  Result<std::optional<Ahead>> look(std::string const& line, EntryRef const& self) {
    return ask<std::optional<Ahead>>([&](auto reply) { backend->look(line, self, kExclusive, reply); });
  }
  Result<std::vector<EntryInfo>> list(std::string const& line) {
    return ask<std::vector<EntryInfo>>([&](auto reply) { backend->list(line, reply); });
  }
  Result<std::vector<std::string>> names() {
    return ask<std::vector<std::string>>([&](auto reply) { backend->names(reply); });
  }
  Result<bool> check(std::string const& line, EntryRef const& entry) {
    return ask<bool>([&](auto reply) { backend->check(line, entry, reply); });
  }
  void stop() {
    bool done = false;
    backend->stop([&] { done = true; });
    run_deferred();
    EXPECT_TRUE(until([&] { return done; }));
  }

  void run_deferred() {
    while (!deferred_.empty()) {
      auto next = std::move(deferred_.front());
      deferred_.pop_front();
      next();
    }
  }

  std::optional<SessionInfo> session;
  error_code failure;
  int losses = 0;
  std::vector<std::pair<std::string, EntryRef>> removals;

 private:
  boost::asio::io_context loop_;
  Timers timers_;
  std::deque<std::function<void()>> deferred_;
  std::vector<std::function<void()>> posted_;

 public:
  std::unique_ptr<Backend> backend;
};

/// What a watch has told.
struct Told {
  std::optional<bool> nobody_ahead;
  std::function<void(bool)> callback() {
    return [this](bool nobody) { nobody_ahead = nobody; };
  }
};

}  // namespace holdfast::detail::file
