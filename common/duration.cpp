#include "common/duration.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>

#include "common/error.hpp"
#include "common/text.hpp"

namespace holdfast::detail {
namespace {

using std::chrono::milliseconds;

struct Unit {
  std::string_view name;
  std::int64_t in_milliseconds;
};

constexpr std::array kUnits = {Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000}, Unit{"h", 3'600'000}};

// Deadlines are counted in nanoseconds, so a duration must fit those: 292 years.
constexpr std::int64_t kLongest = std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds::max()).count();

error_code wrong(std::string_view text, std::string_view why) {
  return fail(errc::invalid_argument, in_quotes(text) + " " + std::string(why) +
                                          "; a duration is a whole number and a unit, as in 250ms, 10s, 5m or 1h");
}

}  // namespace

Result<milliseconds> parse_duration(std::string_view text) {
  if (text.starts_with('-')) return wrong(text, "is negative");
  std::size_t const digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return wrong(text, "is not a duration");
  std::string_view const unit_name = text.substr(digits);
  if (unit_name.empty()) return wrong(text, "has no unit");
  auto const* const unit = std::find_if(kUnits.begin(), kUnits.end(), [&](Unit u) { return u.name == unit_name; });
  if (unit == kUnits.end()) return wrong(text, "is not a duration");
  std::int64_t count = 0;
  auto const [stop, error] = std::from_chars(text.data(), text.data() + digits, count);
  if (error != std::errc() || count > kLongest / unit->in_milliseconds) return wrong(text, "is too long");
  return milliseconds(count * unit->in_milliseconds);
}

}  // namespace holdfast::detail
