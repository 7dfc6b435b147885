#include <holdfast/memory.hpp>

#include "common/names.hpp"
#include "local/memory_service.hpp"

namespace holdfast::memory {

using detail::MemoryService;

void set_outage(std::string_view name, bool outage) { MemoryService::named(std::string(name))->set_outage(outage); }

void expire_sessions(std::string_view name) { MemoryService::named(std::string(name))->expire_all(); }

void remove_holder(std::string_view name, std::string_view lock) {
  auto const service = MemoryService::named(std::string(name));
  auto const line = detail::encode_name(lock);
  if (!line) return;
  auto const entries = service->list(*line);
  if (!entries.empty()) service->remove(*line, entries.front().ref);
}

}  // namespace holdfast::memory
