#include "tests/sim/world.hpp"

#include <cstdio>

namespace holdfast::sim {

void World::say(std::string const& who, std::string const& what) {
  if (!trace_) return;
  char time[32];
  std::snprintf(time, sizeof time, "%12.6f s  ", std::chrono::duration<double>(now_.time_since_epoch()).count());
  std::string line = time + who;
  line.resize(std::max<std::size_t>(line.size() + 1, 30), ' ');
  record_.push_back(line + what);
}

void World::broke(std::string const& promise, std::string const& how) {
  if (broken()) return;
  say("CHECKER", promise + ": " + how);
  verdict_ = promise + ": " + how;
}

}  // namespace holdfast::sim
