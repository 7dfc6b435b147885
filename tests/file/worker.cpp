#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>

#include "tests/file/process.hpp"

// The worker's side of process.hpp: a client that does what its standard input says.

namespace holdfast::test {

namespace {

class Worker {
 public:
  explicit Worker(Client client) : client_(std::move(client)) {}

  void obey(std::string const& line) {
    std::istringstream words(line);
    std::string verb;
    std::string name;
    words >> verb >> name;
    if (verb == "acquire") return take(name, client_.lock(name).acquire_for(20s));
    if (verb == "try") return take(name, client_.lock(name).try_acquire());
    if (verb == "wait") return wait(name, false);
    if (verb == "pass") return wait(name, true);
    if (verb == "release") return answer(taken(name).release());
    if (verb == "valid") return tell_validity(name);
    if (verb == "names") return answer(std::to_string(client_.names().value().size()));
    if (verb == "fork") return fork();
    if (verb == "descriptors") return use_up_descriptors();
    if (verb == "exit") ::_exit(0);
    answer("what is " + line + "?");
  }

  /// In one piece, since it comes from several threads.
  static void answer(std::string text) {
    text += "\n";
    (void)!::write(STDOUT_FILENO, text.data(), text.size());
  }

 private:
  static void answer(Result<void> const& result) { answer(result ? "fine" : "error " + result.error().message()); }

  void keep(std::string const& name, Hold hold) {
    std::lock_guard const guard(mutex_);
    holds_[name] = std::move(hold);
  }
  Hold taken(std::string const& name) {
    std::lock_guard const guard(mutex_);
    return std::move(holds_[name]);
  }

  void tell_validity(std::string const& name) {
    std::lock_guard const guard(mutex_);
    Hold const& hold = holds_[name];
    answer(std::string(hold.valid() ? "valid " : "invalid ") + std::to_string(hold.valid_for().count()));
  }

  void take(std::string const& name, Result<Hold> result) {
    if (!result) return answer("error " + result.error().message());
    auto const fence = result->fence().token();
    keep(name, std::move(*result));
    answer("held " + std::to_string(fence));
  }

  /// Without blocking; `pass` gives the lock back as soon as it comes.
  void wait(std::string const& name, bool pass) {
    client_.lock(name).async_acquire({}, [this, name, pass](error_code ec, Hold hold) {
      if (ec) return answer("error " + ec.message());
      auto const text = "granted " + std::to_string(hold.fence().token()) + " " + std::to_string(now());
      if (!pass) keep(name, std::move(hold));
      answer(text);
    });
  }

  /// A child that lives on, does nothing, and does not exec.
  static void fork() {
    auto const child = ::fork();
    if (child == 0)
      for (;;) ::pause();
    answer(std::to_string(child));
  }

  static void use_up_descriptors() {
    rlimit const limit{256, 256};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) continue;
    answer(errno == EMFILE ? "none left" : "strange");
  }

  Client client_;
  std::mutex mutex_;
  std::map<std::string, Hold> holds_;
};

}  // namespace

/// client URL [UID]
int work(std::vector<std::string> const& arguments) {
  ::umask(077);  // the least helpful one
  if (arguments.size() > 2) {
    auto const id = static_cast<unsigned>(std::atoi(arguments[2].c_str()));
    if (::setgid(id) != 0 || ::setuid(id) != 0) return 1;
  }
  auto client = Client::connect(arguments.at(1));
  if (!client) {
    std::ostringstream text;
    text << "error " << client.error().message();
    Worker::answer(text.str());
    return 1;
  }
  Worker worker(std::move(*client));
  Worker::answer(std::string("ready"));
  for (std::string line; std::getline(std::cin, line);) worker.obey(line);
  return 0;
}

}  // namespace holdfast::test
