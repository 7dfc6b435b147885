// A stranger's program. It calls every function of the public API at least once, so that one which the shared library
// does not export cannot be linked.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

void require(bool holds, char const* what) {
  if (!holds) throw std::runtime_error(what);
}

void values() {
  holdfast::Fence const fence(1, 42);
  require(holdfast::Fence::parse(fence.to_string()).value() == fence, "a fence is read back");
  holdfast::Sequencer const sequencer("file:/x", "name", "entry", fence);
  require(holdfast::Sequencer::parse(sequencer.encode()).value() == sequencer, "a sequencer is read back");
  holdfast::MemoryFenceGate gate;
  require(gate.claim("x", fence) && gate.admit("x", fence) && gate.check("x", fence), "a gate admits its holder");
  require(gate.admit("x", {0, 1}).error() == holdfast::stale_fence("x", {0, 1}, fence), "and refuses a lower fence");
  require(holdfast::describe(holdfast::errc::busy, "x", 7).value() == 7, "an error with words");
  require(holdfast::Config::from_url("no-such-scheme:x").error() == holdfast::errc::invalid_argument, "a bad URL");
  require(holdfast::Config::from_file("/no/such/file").has_error(), "a missing file");
  (void)holdfast::Config::from_env();
  require(holdfast::make_error_code(holdfast::errc::busy).category() == holdfast::error_category(), "one category");
  try {
    (void)holdfast::Client::connect("zk://").value();
    require(false, "value() of an error throws");
  } catch (boost::system::system_error const&) {  // thrown there, caught here
  }
}

void blocking(holdfast::Client client) {
  holdfast::Lock lock = client.lock("outside");
  require(lock.name() == "outside", "a lock knows its name");
  holdfast::Hold hold = lock.acquire().value();
  require(hold.valid() && hold.valid_for() > 0s, "a hold is valid");
  require(!hold.lost().stop_requested() && !hold.lost(1ms).stop_requested(), "a hold is not lost");
  require(lock.try_acquire().error() == holdfast::errc::busy, "it excludes");
  require(lock.acquire_for(1ms).error() == holdfast::errc::timed_out, "a wait ends");
  require(client.inspect("outside").value().at(0).fence == hold.fence(), "inspect shows the holder");
  require(client.names().value() == std::vector<std::string>{"outside"}, "names lists the lock");
  require(client.check(hold.sequencer()).value(), "the sequencer is current");
  (void)client.ttl();
  holdfast::Hold moved;
  moved = std::move(hold);
  require(moved.release().has_value(), "it is given back");
  holdfast::AcquireOptions const options{.timeout = 1s, .stop = {}, .label = "a stranger"};
  require(lock.acquire(options).has_value(), "it is free again");
}

asio::awaitable<void> coroutine(holdfast::Client client) {
  holdfast::AcquireOptions const options;
  auto hold = co_await client.lock("outside").async_acquire(options, asio::use_awaitable);
  co_await hold.async_release(asio::use_awaitable);
}

void works(std::string const& url) {
  auto config = holdfast::Config::from_url(url).value();
  config.validate().value();
  auto client = holdfast::Client::connect(config).value();
  blocking(client);
  asio::io_context loop;
  auto done = asio::co_spawn(loop, coroutine(client), asio::use_future);
  loop.run();
  done.get();
  client.close().value();
  std::cout << "works: " << url << '\n';
}

/// This build of the library lacks the backend, and says so by its name.
void is_left_out(std::string const& url) {
  auto const error = holdfast::Client::connect(url).error();
  auto const scheme = url.substr(0, url.find(':') + 1);
  require(error == holdfast::errc::not_supported, "a backend that was left out is not supported");
  require(error.message().find(scheme) != std::string::npos, "the error names the scheme");
  std::cout << url << ": " << error.message() << '\n';
}

// outside URL... [--without URL...]
int main(int argc, char** argv) try {
  values();
  auto* check = works;
  for (std::string const arg : std::vector<std::string>(argv + 1, argv + argc)) {
    if (arg == "--without")
      check = is_left_out;
    else
      check(arg);
  }
  return argc > 1 ? 0 : 64;
} catch (std::exception const& e) {
  std::cerr << "outside: " << e.what() << '\n';
  return 1;
}
