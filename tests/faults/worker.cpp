#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <mutex>
#include <random>
#include <string>
#include <thread>

// One worker of a fault run: takes locks at random, holds them for a while, writes to a store that checks fences and to
// one that does not, releases, and records all of it, one JSON object per line, with times of CLOCK_BOOTTIME in
// nanoseconds. history.py says what each line means.
//
//   fault_worker URL NAME SEED STORE HISTORY LOCK...
//
// It ends in good order when its standard input does.

namespace {

using namespace std::chrono_literals;
using holdfast::error_code;

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

/// Lines that survive whatever happens to this process.
class History {
 public:
  History(std::string const& path, std::string worker)
      : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)), worker_(std::move(worker)) {}
  History(History const&) = delete;
  ~History() { ::close(fd_); }

  /// `more`: further fields, such as `"fence":7`.
  void add(char const* what, std::string const& lock, std::string const& more = "", std::int64_t at = now()) {
    std::string const line = "{\"at\":" + std::to_string(at) + ",\"worker\":\"" + worker_ + "\",\"what\":\"" + what +
                             "\",\"lock\":\"" + lock + "\"" + (more.empty() ? "" : "," + more) + "}\n";
    (void)!::write(fd_, line.data(), line.size());
  }

 private:
  int fd_;
  std::string worker_;
};

std::string field(char const* name, std::uint64_t value) {
  return "\"" + std::string(name) + "\":" + std::to_string(value);
}
std::string field(char const* name, std::string const& text) {
  std::string escaped;
  for (char const c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    if (static_cast<unsigned char>(c) >= ' ') escaped += c;
  }
  return "\"" + std::string(name) + "\":\"" + escaped + "\"";
}

/// A store of one counter per lock, shared by all workers: a file each, and a kernel lock for the instant of a write.
/// It refuses a fence below the highest it has seen, and keeps a journal in the order of what it decided.
class Store {
 public:
  explicit Store(std::string directory) : directory_(std::move(directory)) {}

  /// Whether the write was accepted.
  bool write(std::string const& lock, std::uint64_t fence) const {
    int const fd = ::open((directory_ + "/" + lock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ::flock(fd, LOCK_EX);
    std::uint64_t highest = 0;
    (void)!::pread(fd, &highest, sizeof highest, 0);
    bool const accepted = fence >= highest;
    if (accepted) (void)!::pwrite(fd, &fence, sizeof fence, 0);
    int const journal =
        ::open((directory_ + "/" + lock + ".journal").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    std::string const line = std::to_string(fence) + (accepted ? " accepted\n" : " refused\n");
    (void)!::write(journal, line.data(), line.size());
    ::close(journal);
    ::close(fd);
    return accepted;
  }

 private:
  std::string directory_;
};

class Worker {
 public:
  Worker(holdfast::Client client, History& history, Store const& store, unsigned seed)
      : client_(std::move(client)), history_(history), store_(store), random_(seed) {}

  void turn(std::string const& name, std::stop_token const& stop) {
    history_.add("wants", name);
    bool const patient = random_() % 4 != 0;  // the others give up, and must leave nothing behind either
    auto const timeout = patient ? 120s : std::chrono::milliseconds(random_() % 1000);
    auto hold = client_.lock(name).acquire({.timeout = timeout, .stop = stop, .label = {}});
    if (!hold) return history_.add("failed", name, field("error", hold.error().message()));
    auto const fence = hold->fence().token();
    history_.add("granted", name, field("fence", fence));
    {
      std::atomic<bool> told = false;
      std::stop_callback const callback(hold->lost(), [&] {
        history_.add("lost", name, field("fence", fence));
        told = true;
      });
      work(name, *hold, told, stop);
    }
    auto const begun = now();
    auto const released = hold->release();
    history_.add("released", name,
                 field("fence", fence) + "," + field("begun", static_cast<std::uint64_t>(begun)) + "," +
                     field("outcome", released ? "ok" : released.error().message()));
  }

  std::string const& pick(std::vector<std::string> const& all) { return all[random_() % all.size()]; }
  void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 20)); }

 private:
  /// For a while, or until it is told to stop. Each look at valid() is an instant at which it held, or did not. A write
  /// comes some time after the look, as it does where there is work to do: what happens in between, only a fence stops.
  void work(std::string const& name, holdfast::Hold const& hold, std::atomic<bool> const& told,
            std::stop_token const& stop) {
    auto const end = now() + static_cast<std::int64_t>(random_() % 200) * 1'000'000;
    auto const fence = hold.fence().token();
    for (bool written = false;; written = true) {
      auto const before = now();
      auto const left = hold.valid_for();
      auto const after = now();
      history_.add(left > 0s ? "valid" : "invalid", name,
                   field("fence", fence) + "," + field("before", static_cast<std::uint64_t>(before)) + "," +
                       field("until", static_cast<std::uint64_t>(before + left.count())),
                   after);
      if (left <= 0s) {
        auto const patience = now() + 5'000'000'000;  // it is to be told as well
        while (!told && now() < patience) std::this_thread::sleep_for(1ms);
        return;
      }
      if (written && (now() >= end || stop.stop_requested())) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + random_() % 20));
      bool const accepted = store_.write(name, fence);
      history_.add("wrote", name, field("fence", fence) + ",\"accepted\":" + (accepted ? "true" : "false"));
    }
  }

  holdfast::Client client_;
  History& history_;
  Store const& store_;
  std::mt19937 random_;
};

/// Notes when this process was not running: stopped, or not let onto a processor.
void watch_the_clock(History& history, std::stop_token const& stop) {
  constexpr std::int64_t kNoticeable = 25'000'000;
  for (auto last = now(); !stop.stop_requested();) {
    std::this_thread::sleep_for(5ms);
    auto const woken = now();
    if (woken - last > kNoticeable) history.add("stalled", "", field("since", static_cast<std::uint64_t>(last)), woken);
    last = woken;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> const arguments(argv, argv + argc);
  if (arguments.size() < 7) {
    std::cerr << "usage: fault_worker URL NAME SEED STORE HISTORY LOCK...\n";
    return 64;
  }
  History history(arguments[5], arguments[2]);
  Store const store(arguments[4]);
  auto config = holdfast::Config::from_url(arguments[1]);
  if (!config) {
    std::cerr << config.error().message() << '\n';
    return 64;
  }
  config->label = arguments[2];
  config->connect_timeout = 60s;
  auto client = holdfast::Client::connect(*config);
  while (!client) {
    history.add("unconnected", "", field("error", client.error().message()));
    client = holdfast::Client::connect(*config);
  }
  std::vector<std::string> const locks(arguments.begin() + 6, arguments.end());

  std::stop_source enough;
  std::thread listener([&] {
    char c = 0;
    while (::read(STDIN_FILENO, &c, 1) > 0) continue;
    enough.request_stop();
  });
  std::jthread const ticker([&](std::stop_token const& stop) { watch_the_clock(history, stop); });
  Worker worker(*client, history, store, static_cast<unsigned>(std::atoi(arguments[3].c_str())));
  while (!enough.stop_requested()) {
    worker.turn(worker.pick(locks), enough.get_token());
    worker.rest();
  }
  listener.join();
  auto const closed = client->close();
  history.add("closed", "", field("outcome", closed ? "ok" : closed.error().message()));
}
