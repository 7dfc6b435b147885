#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "tests/sim/schedule.hpp"

// simulate: runs seeded schedules of the recipes on virtual clocks, and replays one of them with a readable trace.

namespace {

using namespace holdfast::sim;

int replay(std::uint64_t seed, Break what) {
  Outcome const outcome = run_schedule(seed, true, what);
  for (auto const& line : outcome.record) std::cout << line << '\n';
  std::cout << "seed " << seed << ": " << (outcome.broken.empty() ? "every promise was kept" : outcome.broken) << '\n';
  return outcome.broken.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs the lock recipes through seeded schedules of mishaps, and checks the contract at every step."};
  std::uint64_t schedules = 20'000;
  std::uint64_t first = 1;
  std::uint64_t seed = 0;
  Break what = Break::nothing;
  app.add_option("--schedules", schedules, "how many seeds to run")->capture_default_str();
  app.add_option("--first", first, "the first seed")->capture_default_str();
  auto* const one = app.add_option("--seed", seed, "replay this seed and print what happened");
  app.add_option("--break", what, "get this wrong on purpose; success is to notice it")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Break>{{"guard", Break::guard},
                                                                       {"drift", Break::drift},
                                                                       {"notices", Break::notices},
                                                                       {"tamper", Break::tamper},
                                                                       {"deaf", Break::deaf}}));
  CLI11_PARSE(app, argc, argv);
  if (*one) return replay(seed, what);

  std::map<std::string, std::size_t> counts;
  for (std::uint64_t s = first; s < first + schedules; ++s) {
    Outcome const outcome = run_schedule(s, false, what);
    for (auto const& [name, n] : outcome.counts) counts[name] += n;
    if (outcome.broken.empty()) continue;
    std::cout << "seed " << s << ": " << outcome.broken << '\n';
    if (what != Break::nothing) return 0;
    std::cout << "replay it with: " << argv[0] << " --seed " << s << '\n';
    return 1;
  }
  for (auto const& [name, n] : counts) std::printf("%10zu  %s\n", n, name.c_str());
  if (what == Break::nothing) return 0;
  std::cout << "what was got wrong on purpose was not noticed\n";
  return 1;
}
