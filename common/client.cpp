#include <algorithm>

#include "common/api.hpp"
#include "common/error.hpp"
#include "common/names.hpp"

namespace holdfast {

using namespace detail;
using boost::system::in_place_error;

Result<Client> detail::make_client(Config config, std::shared_ptr<Runtime> runtime, Core::MakeBackend const& make) {
  if (auto const checked = config.validate(); !checked) return checked.error();
  if (config.label.empty()) config.label = default_label();
  auto const handle = std::make_shared<Handle>(std::make_shared<Core>(std::move(config), std::move(runtime)));
  if (auto const opened = handle->core().open(make); !opened) return opened.error();
  return Access::client(handle);
}

Result<Client> Client::connect(std::string_view url) {
  auto config = Config::from_url(url);
  if (!config) return config.error();
  return connect(std::move(*config));
}

Result<Client> Client::connect(Config config) {
  try {
    auto client = make_client(std::move(config), make_thread_runtime(), make_backend);
    if (!client) return client;
    if (auto const session = client->handle_->core().await_session(); !session) return session.error();
    return client;
  } catch (boost::system::system_error const& e) {  // no descriptor or no thread to be had
    return fail(errc::unavailable, e.what(), e.code().value());
  } catch (std::system_error const& e) {
    return fail(errc::unavailable, e.what(), e.code().value());
  }
}

Client::Client(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}

Lock Client::lock(std::string_view name) const {
  return Access::lock(std::make_shared<LockState>(LockState{handle_, std::string(name), encode_name(name)}));
}

Result<std::vector<Participant>> Client::inspect(std::string_view name) const {
  auto const line = encode_name(name);
  if (!line) return line.error();
  Core& core = handle_->core();
  auto const entries =
      core.ask<std::vector<EntryInfo>>([&](auto reply) { core.backend().list(*line, std::move(reply)); });
  if (!entries) return entries.error();
  std::vector<Participant> all;
  for (EntryInfo const& entry : *entries)
    all.push_back({entry.label, Fence(core.config().fence_epoch, entry.ref.number), all.empty(), entry.since});
  return all;
}

Result<std::vector<std::string>> Client::names() const {
  Core& core = handle_->core();
  auto lines = core.ask<std::vector<std::string>>([&](auto reply) { core.backend().names(std::move(reply)); });
  if (!lines) return lines;
  std::vector<std::string> all;
  for (auto const& line : *lines)
    if (auto name = percent_decode(line)) all.push_back(std::move(*name));
  std::sort(all.begin(), all.end());
  return all;
}

Result<bool> Client::check(Sequencer const& sequencer) const {
  Core& core = handle_->core();
  if (auto const no = core.refuse(true)) return {in_place_error, no};
  auto const line = encode_name(sequencer.lock());
  if (!line) return {in_place_error, line.error()};
  if (auto const here = core.place(); !here.empty() && sequencer.place() != here)
    return {in_place_error,
            fail(errc::invalid_argument, "the sequencer is of " + sequencer.place() + ", this client of " + here)};
  if (sequencer.fence().epoch() != core.config().fence_epoch) return false;
  return core.ask<bool>([&](auto reply) {
    core.backend().check(*line, {sequencer.entry(), sequencer.fence().token()}, std::move(reply));
  });
}

Result<std::optional<std::string>> Client::read(std::string_view key) const {
  if (key.empty()) return fail(errc::invalid_argument, "read of an empty key");
  Core& core = handle_->core();
  return core.ask<std::optional<std::string>>(
      [&](auto reply) { core.backend().read(std::string(key), std::move(reply)); });
}

std::optional<std::chrono::milliseconds> Client::ttl() const {
  return handle_->core().forked() ? std::nullopt : handle_->core().ttl();
}

Result<void> Client::close() {
  if (handle_->core().forked()) return handle_->core().refuse(false);
  return handle_->core().close();
}

}  // namespace holdfast
