#include "tools/run.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <holdfast/holdfast.hpp>
#include <thread>

#include "tools/child.hpp"
#include "tools/exit_codes.hpp"
#include "tools/text.hpp"

namespace holdfast::tool {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kGrace{5000};

/// The signals that are for the command, read here instead of interrupting us.
class Signals {
 public:
  Signals() {
    sigemptyset(&ours_);
    for (int const signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
      // What we were started to ignore, under nohup for instance, stays ignored by all.
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      if (action.sa_handler != SIG_IGN) sigaddset(&ours_, signal);
    }
    sigset_t blocked = ours_;
    // Stopped with Ctrl-Z we would not renew, while a command in a group of its own would run on.
    if (!isatty(STDIN_FILENO)) sigaddset(&blocked, SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
    descriptor_ = signalfd(-1, &ours_, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() { close(descriptor_); }
  Signals(Signals const&) = delete;
  Signals& operator=(Signals const&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] sigset_t const& before() const { return before_; }

  struct Received {
    int number = 0;              ///< 0: none
    bool from_terminal = false;  ///< the whole foreground group has it
  };
  [[nodiscard]] Received take() const {
    signalfd_siginfo info{};
    if (read(descriptor_, &info, sizeof info) != sizeof info) return {};
    return {static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
  }

 private:
  sigset_t ours_{};
  sigset_t before_{};
  int descriptor_ = -1;
};

/// Wakes a poll from another thread.
class Event {
 public:
  Event() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Event() { close(descriptor_); }
  Event(Event const&) = delete;
  Event& operator=(Event const&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  void set() const {
    std::uint64_t const one = 1;
    (void)!write(descriptor_, &one, sizeof one);
  }
  void clear() const {
    std::uint64_t count = 0;
    (void)!read(descriptor_, &count, sizeof count);
  }

 private:
  int descriptor_;
};

pollfd readable(int descriptor) { return {descriptor, POLLIN, 0}; }

struct Held {
  Client client;
  Hold hold;
  double drift;
  std::optional<Once::Record> done{};  ///< of what is to be done once: then there is no hold
};

/// Connects and stands in line on a thread of its own, while signals are read here.
class Acquire {
 public:
  Acquire(RunOptions const& options, Config config, Signals const& signals)
      : options_(options), config_(std::move(config)), signals_(signals) {}

  /// The hold; or `cancelled`, and then signal() says by what.
  Result<Held> operator()() {
    std::jthread worker([this] {
      result_ = work();
      done_.set();
    });
    for (;;) {
      pollfd fds[] = {readable(done_.descriptor()), readable(signals_.descriptor())};
      poll(fds, 2, -1);
      if (fds[0].revents != 0) {
        worker.join();
        return finish();
      }
      cancel(signals_.take().number);
    }
  }

  [[nodiscard]] int signal() const { return signal_; }

 private:
  Result<Held> work() {
    auto client = Client::connect(config_);
    if (!client) return client.error();
    if (auto before = done_before(*client); !before || *before) return no_need(*client, before);
    in_line_ = true;
    auto hold = client->lock(options_.name)
                    .acquire({.timeout = options_.wait, .stop = stop_.get_token(), .label = options_.label});
    if (!hold) return hold.error();
    if (auto before = done_before(*client); !before || *before) return no_need(*client, before);
    return Held{std::move(*client), std::move(*hold), config_.drift};
  }

  /// Asked before standing in line, since most who come find it done, and again under the lock.
  Result<std::optional<Once::Record>> done_before(Client const& client) const {
    if (!options_.once) return std::optional<Once::Record>();
    return client.once(options_.name, *options_.once).done();
  }

  Result<Held> no_need(Client const& client, Result<std::optional<Once::Record>> const& before) const {
    if (!before) return before.error();
    return Held{client, Hold(), config_.drift, *before};
  }

  void cancel(int signal) {
    // The command, which may have a use for these, is not there yet.
    if (signal == 0 || signal == SIGUSR1 || signal == SIGUSR2) return;
    signal_ = signal;
    stop_.request_stop();
    // A connect cannot be cancelled, but nothing is in line yet either; and from here on nothing gets there.
    if (!in_line_) _exit(exit_codes::by_signal + signal);
  }

  /// A grant that crossed the signal is given back: whoever cancelled wants no command to start.
  Result<Held> finish() {
    if (signal_ != 0) return make_error_code(errc::cancelled);
    return std::move(result_);
  }

  RunOptions const& options_;
  Config config_;
  Signals const& signals_;
  Event done_;
  std::stop_source stop_;
  std::atomic<bool> in_line_ = false;
  int signal_ = 0;
  Result<Held> result_ = make_error_code(errc::cancelled);
};

/// Watches over the running command and the hold at once.
class Supervisor {
 public:
  Supervisor(Child& child, Hold const& hold, nanoseconds grace, Signals const& signals)
      : child_(child), hold_(hold), grace_(grace), signals_(signals) {}

  /// Returns the command's exit code, or `lost`.
  int operator()() {
    std::stop_callback const on_lost(hold_.lost(grace_), [this] { wake_.set(); });
    for (;;) {
      guard();
      pollfd fds[] = {readable(child_.descriptor()), readable(signals_.descriptor()), readable(wake_.descriptor())};
      // Woken at the deadline as it stands now; a renewal meanwhile only means one look too many.
      auto const left = stage_ == Stage::killed ? nanoseconds(std::chrono::hours(1)) : hold_.valid_for();
      wait_for_any(fds, left);
      if (fds[0].revents != 0) return ended();
      if (fds[1].revents != 0) forward(signals_.take());
      if (fds[2].revents != 0) wake_.clear();
    }
  }

 private:
  enum class Stage { running, asked_to_stop, killed };

  template <std::size_t N>
  static void wait_for_any(pollfd (&fds)[N], nanoseconds timeout) {
    auto const seconds = std::chrono::floor<std::chrono::seconds>(timeout);
    timespec const limit{seconds.count(), static_cast<long>((timeout - seconds).count())};
    // What was interrupted leaves revents at zero, and the loop comes round.
    (void)ppoll(fds, N, &limit, nullptr);
  }

  void guard() {
    if (stage_ != Stage::killed && !hold_.valid()) {
      say("lost; the command is killed");
      child_.send(SIGKILL);
      stage_ = Stage::killed;
    } else if (stage_ == Stage::running && hold_.lost(grace_).stop_requested()) {
      say("can no longer be renewed in time; the command is asked to stop");
      child_.send(SIGTERM);
      stage_ = Stage::asked_to_stop;
    }
  }

  int ended() {
    // Its end came too late to say that it fell within the hold.
    if (!hold_.valid()) guard();
    // What it left behind in its group goes, too; before wait(), while the group's number is still ours.
    if (stage_ != Stage::running) child_.send(SIGKILL);
    int const code = child_.wait();
    return stage_ == Stage::running ? code : exit_codes::lost;
  }

  void forward(Signals::Received signal) const {
    bool const has_it = signal.from_terminal && child_.shares_our_group();
    if (signal.number != 0 && !has_it) child_.send(signal.number);
  }

  static void say(char const* what) { std::fprintf(stderr, "holdfast: the lock is %s\n", what); }

  Child& child_;
  Hold const& hold_;
  nanoseconds const grace_;
  Signals const& signals_;
  Event wake_;
  Stage stage_ = Stage::running;
};

std::vector<std::string> settings(std::string const& name, Hold const& hold) {
  return {"HOLDFAST_LOCK=" + name, "HOLDFAST_FENCE=" + std::to_string(hold.fence().token()),
          "HOLDFAST_FENCE_EPOCH=" + std::to_string(hold.fence().epoch()),
          "HOLDFAST_SEQUENCER=" + hold.sequencer().encode()};
}

int not_started(std::string const& command, int error) {
  std::fprintf(stderr, "holdfast: %s: %s\n", command.c_str(), std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? exit_codes::not_found : exit_codes::not_executable;
}

/// Renewal comes at each third of the TTL, so less than two thirds are left by then, and the drift of clocks comes off
/// that: a longer grace would end every command. The default is half of what there is.
boost::system::result<milliseconds, ExitCode> fitting_grace(RunOptions const& options, Held const& held) {
  auto const ttl = held.client.ttl();
  if (!ttl) return options.grace.value_or(kGrace);
  if (!options.grace) {
    auto const left = std::chrono::duration<double, std::milli>(*ttl) * (2.0 / 3 - held.drift);
    return std::min(kGrace, std::chrono::floor<milliseconds>(left / 2));
  }
  if (*options.grace <= *ttl / 2) return *options.grace;
  std::fprintf(stderr, "holdfast: --grace %s does not fit a ttl of %s: half of it is the most\n",
               brief(*options.grace).c_str(), brief(*ttl).c_str());
  return ExitCode{exit_codes::usage};
}

int run_holding(RunOptions const& options, Held& held, Signals const& signals) {
  auto const grace = fitting_grace(options, held);
  if (!grace) return grace.error().value;
  Child child(options.command, settings(options.name, held.hold), signals.before());
  if (child.start_error() != 0) return not_started(options.command.front(), child.start_error());
  return Supervisor(child, held.hold, *grace, signals)();
}

int done_already(std::string const& key, Once::Record const& record) {
  auto const at = std::chrono::system_clock::to_time_t(record.at);
  std::tm parts{};
  gmtime_r(&at, &parts);
  char time[64];
  std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S UTC", &parts);
  std::fprintf(stderr, "holdfast: %s was done at %s by %s (fence %s)\n", one_word(key).c_str(), time,
               one_word(record.by).c_str(), record.fence.to_string().c_str());
  return exit_codes::ok;
}

/// Only now has it been done, as far as the others are concerned.
int record(RunOptions const& options, Held& held) {
  auto const recorded = held.client.once(options.name, *options.once).record(held.hold);
  if (recorded) return exit_codes::ok;
  std::fprintf(stderr, "holdfast: the command succeeded, but that could not be recorded, and it may be run again\n");
  return complain(recorded.error());
}

}  // namespace

int run(RunOptions const& options) {
  auto config = resolve(options.place);
  if (!config) return config.error().value;
  Signals const signals;
  Acquire acquire(options, std::move(*config), signals);
  auto held = acquire();
  if (acquire.signal() != 0) return exit_codes::by_signal + acquire.signal();
  if (!held) return complain(held.error());
  if (held->done) return done_already(*options.once, *held->done);
  int code = run_holding(options, *held, signals);
  if (options.once && code == exit_codes::ok) code = record(options, *held);
  // The command ended within the hold; that giving it back failed is worth a word, not another exit code.
  if (auto const released = held->hold.release(); !released && code != exit_codes::lost)
    (void)complain(released.error());
  return code;
}

}  // namespace holdfast::tool
