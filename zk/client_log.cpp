#include "zk/client_log.hpp"

#include <array>
#include <mutex>
#include <string_view>
#include <utility>

namespace holdfast::detail {
namespace {

constexpr std::size_t kSlots = 64;

struct Slots {
  std::mutex mutex;
  std::array<std::function<void(std::string)>, kSlots> sinks;
};

Slots& slots() {
  static Slots& forever = *new Slots;  // the C client's threads may outlive static objects
  return forever;
}

/// "2026-01-01 00:00:00,000:1234(0x7f..):ZOO_WARN@function@line: text" becomes "text".
void pass_on(std::size_t slot, std::string_view message) {
  auto const level = message.find(":ZOO_");
  if (level == std::string_view::npos) return;
  if (std::string_view const rest = message.substr(level + 5); !rest.starts_with("WARN") && !rest.starts_with("ERROR"))
    return;
  auto const text = message.find(": ", level);
  std::lock_guard const guard(slots().mutex);
  if (auto const& sink = slots().sinks[slot]; sink && text != std::string_view::npos)
    sink(std::string(message.substr(text + 2)));
}

template <std::size_t... Each>
constexpr std::array<log_callback_fn, kSlots> functions(std::index_sequence<Each...>) {
  return {[](char const* message) { pass_on(Each, message); }...};
}

}  // namespace

int ClientLog::take(std::function<void(std::string)> sink) {
  std::lock_guard const guard(slots().mutex);
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (slots().sinks[i]) continue;
    slots().sinks[i] = std::move(sink);
    return static_cast<int>(i);
  }
  return -1;
}

void ClientLog::give_back(int slot) {
  if (slot < 0) return;
  std::lock_guard const guard(slots().mutex);
  slots().sinks[static_cast<std::size_t>(slot)] = nullptr;
}

log_callback_fn ClientLog::function(int slot) {
  static constexpr auto kFunctions = functions(std::make_index_sequence<kSlots>());
  return slot < 0 ? [](char const*) {} : kFunctions[static_cast<std::size_t>(slot)];
}

}  // namespace holdfast::detail
