#include <holdfast/holdfast.hpp>
#include <iostream>

using namespace std::chrono_literals;

int main(int argc, char** argv) {
  auto client = holdfast::Client::connect(argc > 1 ? argv[1] : "memory:example");
  if (!client) {
    std::cerr << client.error().message() << '\n';
    return 1;
  }
  holdfast::Lock lock = client->lock("orders/42");

  auto hold = lock.acquire_for(1s);
  if (!hold) {
    std::cerr << hold.error().message() << '\n';
    return 1;
  }
  std::cout << "write with fence " << hold->fence().token() << '\n';  // the store refuses a lower one
  if (hold->lost().stop_requested()) std::cout << "stop: the lock is gone\n";
}  // ~Hold gives the lock back
