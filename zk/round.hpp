#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "zk/handle.hpp"

namespace holdfast::detail {

/// Questions about each of several names, sent together and answered together.
struct Round {
  std::size_t open = 0;
  std::vector<ZkReply> answers;
  std::function<void(std::vector<ZkReply> const&)> done;

  static void ask(std::vector<std::string> const& paths, std::function<void(std::string const&, ZkDone)> const& request,
                  std::function<void(std::vector<ZkReply> const&)> done) {
    auto const round =
        std::make_shared<Round>(Round{paths.size(), std::vector<ZkReply>(paths.size()), std::move(done)});
    if (paths.empty()) return round->done({});
    for (std::size_t i = 0; i < paths.size(); ++i)
      request(paths[i], [round, i](ZkReply const& answer) {
        round->answers[i] = answer;
        if (--round->open == 0) round->done(round->answers);
      });
  }
};

}  // namespace holdfast::detail
