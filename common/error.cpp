#include "common/error.hpp"

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>

#include "common/text.hpp"

namespace holdfast {
namespace {

constexpr std::size_t kTextLimit = 1000;  // bytes of one text
// Texts of one condition: a gate that refuses much takes no other error's words away.
constexpr std::size_t kTableLimit = 1000;
constexpr int kFirst = static_cast<int>(errc::busy);
constexpr int kLast = static_cast<int>(errc::conflict);

char const* words(int condition) noexcept {
  switch (static_cast<errc>(condition)) {
    case errc::busy: return "held by somebody else";
    case errc::timed_out: return "timed out in line";
    case errc::cancelled: return "cancelled by the caller";
    case errc::lost: return "the hold is lost";
    case errc::unavailable: return "the service is unavailable";
    case errc::denied: return "access denied";
    case errc::invalid_argument: return "invalid argument";
    case errc::not_supported: return "not supported";
    case errc::stale_fence: return "the fence is stale";
    case errc::unknown_outcome: return "the outcome is unknown";
    case errc::would_deadlock: return "would deadlock";
    case errc::closed: return "the client is closed";
    case errc::corrupt: return "stored state is corrupt";
    case errc::conflict: return "a condition was not met";
  }
  return "unknown error";
}

char const* copy(std::string_view text, char* buffer, std::size_t size) noexcept {
  if (size == 0) return buffer;
  std::string_view const part = detail::shorten(text, size - 1);
  std::memcpy(buffer, part.data(), part.size());
  buffer[part.size()] = '\0';
  return buffer;
}

// Boost's base class has a protected destructor, not a virtual one: categories are never deleted through it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"

class Conditions final : public boost::system::error_category {
 public:
  // A fixed id ("holdfast" in ASCII): conditions compare equal even if a process holds two copies of the library.
  constexpr Conditions() noexcept : error_category(0x686F6C6466617374U) {}

  char const* name() const noexcept override { return "holdfast"; }
  std::string message(int value) const override { return words(value); }
  char const* message(int value, char* buffer, std::size_t size) const noexcept override {
    return copy(words(value), buffer, size);
  }
};

/// The category of one condition and one text. Its values are raw codes, of which any number is a failure.
class Described final : public boost::system::error_category {
 public:
  Described(errc condition, std::string message) : condition_(condition), message_(std::move(message)) {}

  char const* name() const noexcept override { return "holdfast"; }
  std::string message(int /*value*/) const override { return message_; }
  char const* message(int /*value*/, char* buffer, std::size_t size) const noexcept override {
    return copy(message_, buffer, size);
  }
  bool failed(int /*value*/) const noexcept override { return true; }
  boost::system::error_condition default_error_condition(int /*value*/) const noexcept override {
    return make_error_condition(condition_);
  }

  std::string_view text() const noexcept { return message_; }

 private:
  errc condition_;
  std::string message_;
};

#pragma GCC diagnostic pop

class Table {
 public:
  /// The category of a text; the one without text if the table is full.
  Described const& intern(errc condition, std::string_view text) {
    std::string const plain = words(static_cast<int>(condition));
    std::lock_guard const guard(mutex_);
    if (!text.empty()) {
      std::string message = plain + ": " + std::string(detail::shorten(text, kTextLimit));
      if (auto const found = known_.find(message); found != known_.end()) return *found->second;
      if (auto& texts = texts_[condition]; texts < kTableLimit) {
        ++texts;
        return add(condition, std::move(message));
      }
    }
    // At most one of these per condition, so they need no limit.
    auto const found = known_.find(plain);
    return found != known_.end() ? *found->second : add(condition, plain);
  }

 private:
  Described const& add(errc condition, std::string message) {
    auto described = std::make_unique<Described const>(condition, std::move(message));
    std::string_view const key = described->text();
    return *known_.emplace(key, std::move(described)).first->second;
  }

  std::mutex mutex_;
  std::map<std::string_view, std::unique_ptr<Described const>> known_;
  std::map<errc, std::size_t> texts_;  // how many each condition has
};

Table& table() {
  static Table& forever = *new Table;  // error_codes may outlive every static object
  return forever;
}

constinit Conditions const conditions;

}  // namespace

boost::system::error_category const& error_category() noexcept { return conditions; }

namespace detail {

error_code fail(errc condition, std::string_view text, int raw) {
  Described const& described = table().intern(condition, text);
  bool const told = described.text() != words(static_cast<int>(condition));
  if (!told && raw == 0) return make_error_code(condition);
  return {raw == 0 ? static_cast<int>(condition) : raw, described};
}

error_code fail_errno(int error, std::string_view text) {
  bool const denied = error == EACCES || error == EPERM || error == EROFS;
  std::string whole(text);
  whole += ": ";
  whole += std::generic_category().message(error);
  return fail(denied ? errc::denied : errc::unavailable, whole, error);
}

errc condition(error_code const& code) noexcept {
  boost::system::error_condition const found = code.default_error_condition();
  bool const ours = found.category() == error_category() && found.value() >= kFirst && found.value() <= kLast;
  return ours ? static_cast<errc>(found.value()) : errc::unavailable;
}

}  // namespace detail
}  // namespace holdfast
