#include <holdfast/fence.hpp>

#include "common/error.hpp"
#include "common/text.hpp"

namespace holdfast {

std::string Fence::to_string() const { return std::to_string(epoch_) + "." + std::to_string(token_); }

Result<Fence> Fence::parse(std::string_view text) {
  if (auto const fence = detail::parse_fence(text)) return *fence;
  return detail::fail(errc::invalid_argument,
                      detail::in_quotes(text) + " is not a fence; a fence is epoch.token, as in 0.4711");
}

}  // namespace holdfast
