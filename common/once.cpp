#include <holdfast/once.hpp>

#include <cstdio>
#include <ctime>
#include <thread>

#include "common/api.hpp"
#include "common/error.hpp"
#include "common/names.hpp"
#include "common/text.hpp"

namespace holdfast {

using namespace detail;
using std::chrono::milliseconds;
using std::chrono::system_clock;

class detail::OnceState {
 public:
  Client client;
  Lock lock;
  Result<std::string> key;  ///< of the record, in the service
};

namespace {

// A record is "2026-11-18T03:00:07.123Z 0.4711 label": readable with the service's own tools.

std::string to_text(Once::Record const& record) {
  auto const ms = std::chrono::floor<milliseconds>(record.at).time_since_epoch();
  std::time_t const seconds = std::chrono::floor<std::chrono::seconds>(ms).count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char time[64];
  std::size_t const size = std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(time + size, sizeof time - size, ".%03dZ ", static_cast<int>((ms % 1000).count()));
  return time + record.fence.to_string() + " " + record.by;
}

std::optional<Once::Record> from_text(std::string const& text) {
  std::tm parts{};
  int ms = 0, end = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                  &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &ms, &end) != 7 ||
      end == 0)
    return std::nullopt;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  std::string_view const rest = std::string_view(text).substr(static_cast<std::size_t>(end));
  auto const space = rest.find(' ');
  auto const fence = parse_fence(rest.substr(0, space));
  if (!fence || space == std::string_view::npos) return std::nullopt;
  return Once::Record{std::string(rest.substr(space + 1)),
                      system_clock::from_time_t(::timegm(&parts)) + milliseconds(ms), *fence};
}

}  // namespace

Once::Once(std::shared_ptr<OnceState const> state) : state_(std::move(state)) {}

Once Client::once(std::string_view lock, std::string_view key) const {
  auto const line = encode_name(lock), name = encode_name(key);
  auto where = !line ? line : name;
  if (line && name) where = handle_->core().config().root + "/@once/" + *line + "/" + *name;
  return Access::once(std::make_shared<OnceState>(OnceState{*this, this->lock(lock), std::move(where)}));
}

Result<std::optional<Once::Record>> Once::done() const {
  if (!state_->key) return state_->key.error();
  auto const text = state_->client.read(*state_->key);
  if (!text) return text.error();
  if (!*text) return std::optional<Record>();
  auto record = from_text(**text);
  if (!record) return fail(errc::corrupt, *state_->key + " is no record of something done once");
  return record;
}

Result<Once::Outcome> Once::run(AcquireOptions options, std::function<Result<void>(Hold&)> const& work) const {
  if (auto const before = done(); !before || *before) {
    if (!before) return before.error();
    return Outcome{**before, false};
  }
  auto lock = state_->lock;
  auto hold = lock.acquire(std::move(options));
  if (!hold) return hold.error();
  if (auto const before = done(); !before || *before) {
    if (!before) return before.error();
    return Outcome{**before, false};
  }
  if (auto const worked = work(*hold); !worked) return worked.error();
  auto const recorded = record(*hold);
  if (!recorded) return recorded.error();
  return Outcome{*recorded, true};
}

Result<Once::Record> Once::record(Hold& hold) const {
  constexpr milliseconds kPause{50};
  if (!state_->key) return state_->key.error();
  auto const& state = Access::state(hold);
  if (!state || state->claim().line() != encode_name(state_->lock.name()).value())
    return fail(errc::invalid_argument, "a hold of " + in_quotes(state_->lock.name()) + " is needed");
  Record const record{state->claim().label(), std::chrono::floor<milliseconds>(system_clock::now()), hold.fence()};
  auto const commit = Commit().if_absent(*state_->key).put(*state_->key, to_text(record));
  for (;;) {
    auto const committed = state->commit(commit);
    if (committed) return record;
    auto const why = committed.error();
    bool const may_yet = why == errc::unknown_outcome || why == errc::unavailable;
    if (!may_yet || !hold.valid()) return why;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace holdfast
