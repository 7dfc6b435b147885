#include "tests/sim/machine.hpp"

#include <algorithm>
#include <deque>

namespace holdfast::sim {

using detail::kNever;

// ---- the machine

TimePoint Machine::clock() const {
  auto const t = static_cast<double>(world_.now().time_since_epoch().count());
  return TimePoint(offset_ + Duration(static_cast<Duration::rep>(t * rate_)));
}

Duration Machine::until(TimePoint local) const {
  auto const left = static_cast<double>((local - clock()).count());
  return left <= 0 ? Duration::zero() : Duration(static_cast<Duration::rep>(left / rate_) + 1);
}

void Machine::run(std::function<void()> const& what) {
  if (dead_) return;
  if (paused_) return held_up_.push_back(what);
  what();
  deliver();
}

void Machine::after(Duration delay, std::function<void()> what) {
  world_.after(delay, [this, what = std::move(what)] { run(what); });
}

void Machine::deliver() {
  if (blocked_ > 0 || paused_ || dead_ || (deaf_ && world_.chance(0.5))) return;
  notifications_.restart();
  while (notifications_.poll_one() > 0) {
  }
}

void Machine::pause() {
  world_.say(name_, "is stopped (SIGSTOP)");
  paused_ = true;
  last_mishap_ = world_.now();
}

void Machine::resume() {
  if (!paused_) return;
  paused_ = false;
  last_mishap_ = world_.now();
  world_.say(name_, "runs again (SIGCONT)");
  auto due = std::exchange(held_up_, {});
  while (!due.empty()) {
    std::swap(due[world_.below(due.size())], due.back());
    auto const next = std::move(due.back());
    due.pop_back();
    run(next);
  }
  deliver();
}

void Machine::end() {
  dead_ = paused_ = false;
  blocked_ = 0;
  deaf_ = false;
  held_up_.clear();
  deliver();
}

void Machine::block_callbacks(Duration how_long) {
  ++blocked_;
  last_mishap_ = world_.now();
  world_.say(name_, "has a callback that blocks");
  world_.after(how_long, [this] {
    if (--blocked_ == 0) {
      last_mishap_ = world_.now();
      world_.say(name_, "has its blocking callback return");
    }
    run([] {});
  });
}

// ---- its runtime

namespace {

class SimRuntime final : public detail::Runtime {
 public:
  explicit SimRuntime(Machine& machine) : machine_(machine) {}

  TimePoint now() const noexcept override { return machine_.clock(); }
  void start(std::function<void()> alarm) override {
    alarm_ = std::make_shared<std::function<void()>>(std::move(alarm));
  }

  void wake_at(TimePoint when) override {
    ++armed_;
    if (when == kNever) return;
    machine_.after(machine_.until(when), [this, weak = std::weak_ptr(alarm_), armed = armed_] {
      auto const alarm = weak.lock();  // without it there is no `this` either
      if (alarm && armed == armed_) (*alarm)();
    });
  }

  void post(std::function<void()> what) override {
    posted_.push_back(std::move(what));
    machine_.after(machine_.world().between(0us, 100us), [this, weak = std::weak_ptr(alarm_)] {
      if (weak.expired()) return;
      auto const next = std::move(posted_.front());  // in the order of posting, whoever comes first
      posted_.pop_front();
      next();
    });
  }
  boost::asio::io_context& loop() override { return machine_.notifications(); }
  boost::asio::any_io_executor notifier() override { return machine_.notifications().get_executor(); }
  bool on_loop() const noexcept override { return true; }  // so close() does not wait: nothing would happen meanwhile
  bool on_notifier() const noexcept override { return false; }
  void stop(Duration) override {
    alarm_ = nullptr;
    kept_.reset();
  }
  void keep(std::shared_ptr<void> what) override { kept_ = std::move(what); }

 private:
  Machine& machine_;
  std::shared_ptr<std::function<void()>> alarm_;
  std::uint64_t armed_ = 0;
  std::deque<std::function<void()>> posted_;
  std::shared_ptr<void> kept_;
};

}  // namespace

std::shared_ptr<detail::Runtime> make_runtime(Machine& machine) { return std::make_shared<SimRuntime>(machine); }

// ---- the network

class SimWire final : public detail::MemoryWire {
 public:
  SimWire(Link& link, detail::Host& host) : link_(link), host_(host) {}
  ~SimWire() override { link_.tell_ = nullptr; }

  void connect(Events events) override {
    link_.tell_ = [this, events](bool up) { host_.post(up ? events.up : events.down); };
    link_.machine_.after(link_.delay(), [this, weak = std::weak_ptr(alive_), events, epoch = link_.epoch_] {
      if (!weak.expired() && link_.up_ && link_.epoch_ == epoch) host_.post(events.up);
    });
  }

  void send(Request request) override {
    if (link_.told_down_) return;
    world().after(link_.delay(), [this, request = std::move(request), weak = std::weak_ptr(alive_),
                                  epoch = link_.epoch_, &link = link_] {
      if (link.epoch_ == epoch && link.up_) return arrive(request, weak, epoch, link);
      World& w = link.machine_.world();
      if (w.chance(0.4)) return;  // lost on its way
      w.after(w.between(0ms, 10s), [request, &link] {
        link.machine_.world().say("network", "delivers a request of " + link.machine_.name() + " late");
        ++link.late_;
        request(link.service_);
      });
    });
  }

  detail::MemoryService::Notice notice(detail::MemoryService::Notice at_client) override {
    return [this, at_client, weak = std::weak_ptr(alive_), &link = link_](std::string const& line,
                                                                          detail::EntryRef const& entry) {
      if (weak.expired() || !link.up_) return;
      if (link.loses_notices_ && link.machine_.world().chance(0.3)) return;
      pass_on([at_client, line, entry] { at_client(line, entry); }, weak, link.epoch_, link);
    };
  }

 private:
  World& world() { return link_.machine_.world(); }

  /// `this` is to be touched only if `weak` still is.
  void arrive(Request const& request, std::weak_ptr<bool> const& weak, std::uint64_t epoch, Link& link) {
    pass_on(request(link.service_), weak, epoch, link);
  }

  void pass_on(Reply reply, std::weak_ptr<bool> const& weak, std::uint64_t epoch, Link& link) {
    link.machine_.world().after(link.delay(), [this, reply = std::move(reply), weak, epoch, &link] {
      if (link.epoch_ != epoch || !link.up_) return;
      link.machine_.run([this, reply, weak, epoch, &link] {
        // It may have waited in the socket's buffer while the process slept and the connection broke.
        if (!weak.expired() && link.epoch_ == epoch && !link.told_down_)
          host_.post([reply, &link, epoch] {
            if (link.epoch_ == epoch && !link.told_down_) reply();
          });
      });
    });
  }

  Link& link_;
  detail::Host& host_;
  std::shared_ptr<bool> const alive_ = std::make_shared<bool>(true);
};

std::unique_ptr<detail::MemoryWire> Link::make_wire(detail::Host& host) {
  return std::make_unique<SimWire>(*this, host);
}

Duration Link::delay() {
  World& world = machine_.world();
  // Mostly quick, now and then not.
  return world.chance(0.9) ? world.between(50us, 2ms) : world.between(50us, healed_ ? 5ms : longest_delay_);
}

void Link::tell_down() {
  if (std::exchange(told_down_, true)) return;
  if (tell_) tell_(false);
}

void Link::cut(Duration until_told, Duration until_up) {
  if (!up_) return;
  World& world = machine_.world();
  world.say("network", "cuts " + machine_.name() + " off");
  up_ = false;
  last_mishap_ = world.now();
  machine_.after(until_told, [this, epoch = epoch_] {
    if (epoch_ == epoch) tell_down();
  });
  world.after(until_told + until_up, [this] {
    machine_.world().say("network", "reaches " + machine_.name() + " again");
    machine_.run([this] {
      tell_down();  // a process that slept hears both at once
      ++epoch_;
      up_ = true;
      told_down_ = false;
      last_mishap_ = machine_.world().now();
      if (tell_) tell_(true);
    });
  });
}

}  // namespace holdfast::sim
