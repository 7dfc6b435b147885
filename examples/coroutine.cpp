// The asynchronous calls in C++20 coroutines, on the user's own io_context.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <holdfast/holdfast.hpp>
#include <iostream>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

asio::awaitable<void> work(holdfast::Client client) {
  auto const lock = client.lock("examples/coroutine");
  // Options have names here: GCC 12 miscompiles a braced aggregate inside a co_await expression.
  holdfast::AcquireOptions const patient{.timeout = 1s, .stop = {}, .label = {}};
  holdfast::AcquireOptions const hasty{.timeout = 50ms, .stop = {}, .label = {}};
  holdfast::AcquireOptions const endless;

  holdfast::Hold hold = co_await lock.async_acquire(patient, asio::use_awaitable);
  std::cout << "held with fence " << hold.fence().to_string() << '\n';

  // A timeout of the library: the outcome as a value instead of an exception.
  auto [error, none] = co_await lock.async_acquire(hasty, asio::as_tuple(asio::use_awaitable));
  if (error != holdfast::errc::timed_out) throw std::runtime_error("expected to time out");
  std::cout << "second acquire: " << error.message() << '\n';

  // A timeout of the user's own: whichever is first cancels the other, and a cancelled acquire leaves nothing behind.
  asio::steady_timer timer(co_await asio::this_coro::executor, 50ms);
  auto const first =
      co_await (lock.async_acquire(endless, asio::use_awaitable) || timer.async_wait(asio::use_awaitable));
  if (first.index() != 1) throw std::runtime_error("expected the timer to win");
  std::cout << "third acquire: the timer was first\n";

  co_await hold.async_release(asio::use_awaitable);
  hold = co_await lock.async_acquire(patient, asio::use_awaitable);
  std::cout << "again, with fence " << hold.fence().to_string() << '\n';
}

int main(int argc, char** argv) try {
  auto client = holdfast::Client::connect(argc > 1 ? argv[1] : "memory:example").value();
  asio::io_context loop;
  std::exception_ptr failure;
  asio::co_spawn(loop, work(client), [&](std::exception_ptr e) { failure = e; });
  loop.run();
  if (failure) std::rethrow_exception(failure);
  return 0;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
