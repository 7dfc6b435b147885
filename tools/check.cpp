#include "tools/check.hpp"

#include <cstdio>
#include <holdfast/holdfast.hpp>

#include "tools/exit_codes.hpp"

namespace holdfast::tool {

int check(Place const& place, std::string const& sequencer) {
  auto const proof = Sequencer::parse(sequencer);
  if (!proof) return complain(proof.error());
  auto config = resolve(place);
  if (!config) return config.error().value;
  auto const client = Client::connect(std::move(*config));
  if (!client) return complain(client.error());
  auto const current = client->check(*proof);
  if (!current) return complain(current.error());
  std::puts(*current ? "current" : "stale");
  return *current ? exit_codes::ok : exit_codes::stale;
}

}  // namespace holdfast::tool
