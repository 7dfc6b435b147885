#include <cstdio>
#include <cstdlib>
#include <holdfast/holdfast.hpp>
#include <string>

#include "bench/commit/plain.hpp"
#include "bench/side_by_side.hpp"

// What the guard of a commit costs: a value written under a lock by hold.commit, beside the same value written to the
// same member without any lock. Run beside a cluster:
//
//     tests/cluster/cluster run etcd -- build/dev/bench/holdfast_bench_commit

int main() {
  char const* const cluster = std::getenv("HOLDFAST_TEST_URL");
  if (cluster == nullptr) {
    std::fprintf(stderr, "run this beside a cluster: tests/cluster/cluster run SERVICE -- PROGRAM\n");
    return 64;
  }
  std::string const url = cluster;
  auto const begin = url.find("://");
  std::string const scheme = url.substr(0, begin);
  std::string const member = url.substr(begin + 3, url.find(',') - begin - 3);

  auto client = holdfast::Client::connect(scheme + "://" + member + "/bench?ttl=30s").value();
  auto hold = client.lock("x").acquire().value();
  auto const plain = scheme == "etcd" ? holdfast::bench::etcd_write(member) : holdfast::bench::zk_write(member);
  std::string const value(100, 'x');
  std::printf("| %s, medians in µs | unguarded | hold.commit | ratio |\n|---|---|---|---|\n", scheme.c_str());
  holdfast::bench::side_by_side(
      "100 bytes to one key", 2000, [&] { plain("/bench-plain", value); },
      [&] {
        if (!hold.commit(holdfast::Commit().put("/bench-guarded", value))) std::abort();
      });
}
