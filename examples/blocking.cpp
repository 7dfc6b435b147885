// The blocking calls: try, wait for a while, be stopped by somebody else, look at the line.
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <stop_token>
#include <thread>

using namespace std::chrono_literals;
using holdfast::errc;

int main(int argc, char** argv) try {
  auto client = holdfast::Client::connect(argc > 1 ? argv[1] : "memory:example").value();
  auto lock = client.lock("examples/blocking");

  auto hold = lock.acquire_for(1s).value();  // throws boost::system::system_error if it did not work out
  std::cout << "held with fence " << hold.fence().to_string() << '\n';

  // Each acquire is a claim of its own, also in the same thread: here the lock is busy.
  if (auto second = lock.try_acquire(); second || second.error() != errc::busy) return 1;
  std::cout << "try_acquire: busy, as it should be\n";

  if (auto second = lock.acquire_for(50ms); second || second.error() != errc::timed_out) return 1;
  std::cout << "acquire_for(50ms): timed out in line\n";

  // A wait without end, which another thread ends.
  std::stop_source enough;
  std::jthread const impatient([&] {
    std::this_thread::sleep_for(50ms);
    enough.request_stop();
  });
  auto third = lock.acquire({.timeout = {}, .stop = enough.get_token(), .label = "impatient"});
  if (third || third.error() != errc::cancelled) return 1;
  std::cout << "acquire with a stop token: cancelled\n";

  for (auto const& each : client.inspect("examples/blocking").value())
    std::cout << (each.holds ? "holder " : "waiter ") << each.label << '\n';

  hold.release().value();
  auto const next = lock.acquire_for(1s).value();
  std::cout << "again, with fence " << next.fence().to_string() << '\n';
  return 0;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
