#include "etcd/members.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace holdfast::detail::etcd {

using namespace std::chrono_literals;

namespace {

constexpr Duration kShortestPause = 50ms;
constexpr Duration kLongestPause = 2s;

std::vector<std::string> member_names(Config const& config) {
  std::vector<std::string> names;
  for (auto const& [host, port] : config.endpoints) {
    bool const ipv6 = host.find(':') != std::string::npos;
    names.push_back((ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port));
  }
  return names;
}

/// How long one member is waited for: all of them get their chance within the time for connecting.
Duration patience(Config const& config) {
  auto const share = config.connect_timeout / (config.endpoints.size() + 1);
  return std::clamp<Duration>(share, 250ms, 2s);
}

}  // namespace

Members::Members(Config const& config, Host& host, Events events)
    : config_(config),
      host_(host),
      events_(std::move(events)),
      names_(member_names(config)),
      random_(std::random_device{}()) {
  current_ = random_() % names_.size();  // so that many clients spread over the members
}

void Members::stop() {
  host_.cancel(std::exchange(timer_, 0));
  logged_in_ = false;
  wire_.reset();
}

void Members::connect() {
  timer_ = host_.at(host_.now() + patience(config_), [this] {
    timer_ = 0;
    give_up("no answer", false, {});
  });
  auto const credentials = make_credentials(config_);
  if (!credentials) return give_up(credentials.error().message(), false, {});
  Wire::Events streams = events_.streams;
  streams.broken = [this](Failure const& why) { fail(why); };
  wire_ = std::make_unique<Wire>(host_, member(), *credentials, patience(config_), std::move(streams));
  if (!config_.user.empty()) return login();
  logged_in_ = true;
  events_.connected(*wire_);
}

void Members::login() {
  pb::AuthenticateRequest request;
  request.set_name(config_.user);
  request.set_password(config_.password);
  wire_->authenticate(std::move(request), [this](Failure const& why, pb::AuthenticateResponse const& response) {
    bool const no_users = why.text.find("authentication is not enabled") != std::string::npos;
    if (why && !no_users) return fail(why);
    wire_->set_token(response.token());
    logged_in_ = fresh_login_ = true;
    events_.connected(*wire_);
  });
}

void Members::reached() {
  host_.cancel(std::exchange(timer_, 0));
  fresh_login_ = false;
  tried_ = 0;
  failures_.clear();
}

void Members::fail(Failure const& why) {
  bool const token = why.kind() == Failure::Kind::credentials;
  bool const refused_again = token && std::exchange(fresh_login_, false);
  bool const final = why.kind() == Failure::Kind::final || refused_again;
  give_up(why.text, token && !refused_again, final ? why.to_error() : error_code());
}

void Members::give_up(std::string const& why, bool same_again, error_code final) {
  failures_[member()] = why;
  bool const was_up = logged_in_;
  if (wire_) keep(wire_->remains());
  stop();
  if (was_up) events_.disconnected();
  if (!same_again) current_ = (current_ + 1) % names_.size();
  ++tried_;
  if (final || tried_ >= names_.size()) events_.failed(final ? final : all_failures());
  timer_ = host_.at(host_.now() + pause(), [this] { connect(); });
}

/// Until it has settled; asked again, since a process that was stopped finds everything due at once.
void Members::keep(std::function<bool()> settled) {
  host_.at(host_.now() + 2 * patience(config_), [this, settled = std::move(settled)] {
    if (!settled()) keep(settled);
  });
}

/// None while there are members that were not tried; then growing, and with full jitter.
Duration Members::pause() {
  auto const rounds = tried_ / names_.size();
  if (rounds == 0) return Duration::zero();
  auto const most = std::min<Duration>(kShortestPause * (1U << std::min<std::size_t>(rounds - 1, 10)), kLongestPause);
  return Duration(std::uniform_int_distribution<Duration::rep>(0, most.count())(random_)) + 1ms;
}

error_code Members::all_failures() const {
  std::string text = "tried";
  for (auto const& [name, why] : failures_) {
    text += text.back() == ')' ? ", " : " ";
    text.append(name).append(" (").append(why).append(")");
  }
  return detail::fail(errc::unavailable, text);
}

}  // namespace holdfast::detail::etcd
