// A job that runs on one machine of many, step by step, and stops as soon as its lock can no longer be proven.
#include <condition_variable>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

// Steps until there are none left, or until told to stop. Every write would carry the fence.
int run_job(std::stop_token const& lost, holdfast::Fence fence, int steps) {
  std::mutex mutex;
  std::condition_variable_any wake;
  for (int step = 1; step <= steps; ++step) {
    std::unique_lock guard(mutex);
    // The work of a step; a stop wakes it in the middle.
    wake.wait_for(guard, lost, 20ms, [] { return false; });
    if (lost.stop_requested()) return step - 1;
    std::cout << "step " << step << " written with fence " << fence.token() << '\n';
  }
  return steps;
}

int main(int argc, char** argv) try {
  auto client = holdfast::Client::connect(argc > 1 ? argv[1] : "memory:example").value();
  auto lock = client.lock("examples/nightly");

  {  // The ordinary night: all steps, then the lock is given back.
    auto const hold = lock.acquire_for(1s).value();
    if (run_job(hold.lost(), hold.fence(), 3) != 3) return 1;
    std::cout << "done\n";
  }

  // A bad night: the session ends in the middle. Here an operator closes the client; an expired lease does the same.
  auto const hold = lock.acquire_for(1s).value();
  std::jthread const operator_of_the_night([&] {
    std::this_thread::sleep_for(100ms);
    (void)client.close();
  });
  int const steps = run_job(hold.lost(), hold.fence(), 1000);
  std::cout << "lost after " << steps << " steps: stopped, somebody else goes on with a higher fence\n";
  return steps < 1000 && !hold.valid() ? 0 : 1;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
