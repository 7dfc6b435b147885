#include <atomic>
#include <holdfast/commit.hpp>
#include <utility>

namespace holdfast {
namespace {

std::uint64_t new_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

Commit::Commit() : id_(new_id()) {}

Commit& Commit::put(std::string key, std::string value) {
  writes_[std::move(key)] = std::move(value);
  id_ = new_id();
  return *this;
}

Commit& Commit::erase(std::string key) {
  writes_[std::move(key)] = std::nullopt;
  id_ = new_id();
  return *this;
}

Commit& Commit::if_equals(std::string key, std::string value) {
  conditions_[std::move(key)] = std::move(value);
  id_ = new_id();
  return *this;
}

Commit& Commit::if_absent(std::string key) {
  conditions_[std::move(key)] = std::nullopt;
  id_ = new_id();
  return *this;
}

}  // namespace holdfast
