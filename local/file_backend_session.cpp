#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>

#include "common/error.hpp"
#include "local/file_backend.hpp"

namespace holdfast::detail::file {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDefaultTtl{15000};
constexpr milliseconds kShortestBeat{100};
constexpr milliseconds kOpenAgain{1000};

/// The program may change its directory later.
std::string absolute(std::string const& path) {
  std::error_code error;
  auto const result = std::filesystem::absolute(path, error);
  return error ? path : result.string();
}

}  // namespace

FileBackend::FileBackend(Config const& config, Host& host)
    : host_(host),
      path_(absolute(config.root)),
      beat_(std::max(config.ttl.value_or(kDefaultTtl) / 3, kShortestBeat)),
      mutex_(host),
      watch_(host, *this) {}

FileBackend::~FileBackend() {
  alive_.reset();
  host_.cancel(timer_);
  close_session();
}

void FileBackend::open() {
  auto opened = Store::open(path_);
  if (!opened) return failed(opened.error());
  store_.emplace(std::move(*opened));
  opening_since_ = host_.now();
  settle();
}

/// Waits for the mutex, by timer, then opens the session.
void FileBackend::settle() {
  if (!store_->counter().try_lock()) {
    if (host_.now() - opening_since_ > kOpenAgain)
      return failed(fail(errc::unavailable, path_ + "/counter stays locked; is a process stopped that uses it?"));
    timer_ = host_.at(host_.now() + milliseconds(1), [this] { settle(); });
    return;
  }
  auto info = open_session();
  store_->counter().unlock();
  if (!info) return failed(info.error());
  timer_ = host_.at(later(host_.now(), beat_), [this] { beat(); });
  soon([this, info = *info] {
    if (session_ == 0) return;
    host_.up(info);
    mutex_.open(store_->counter());
  });
}

Result<SessionInfo> FileBackend::open_session() {
  auto const sent = host_.now();
  auto const boot = boot_id();
  if (!boot) return boot.error();
  auto const directory = store_->settle(*boot);
  if (!directory) return directory.error();
  if (auto swept = store_->sweep(); !swept) return swept.error();
  auto const id = store_->counter().take();
  if (!id) return id.error();
  auto fifo = store_->sessions().create(*id, store_->rights());
  if (!fifo) return fifo.error();
  fifo_ = std::move(*fifo);
  session_ = *id;
  if (auto watching = watch_.open(fifo_.get()); !watching) return watching.error();
  spare_.take(store_->lines());
  char place[32];
  std::snprintf(place, sizeof place, "file:%016llx", static_cast<unsigned long long>(*directory));
  return SessionInfo{place, std::nullopt, sent};
}

void FileBackend::failed(error_code why) {
  close_session();
  timer_ = host_.at(host_.now() + kOpenAgain, [this] { open(); });
  soon([this, why] { host_.failed(why); });
}

void FileBackend::lose() {
  if (session_ == 0) return;
  host_.cancel(timer_);
  close_session();
  timer_ = host_.at(host_.now() + kOpenAgain, [this] { open(); });
  host_.lost();
}

/// Gives everything back to the kernel, which ends the session for all to see. What waits for the mutex is answered.
void FileBackend::close_session() {
  mutex_.close();
  watch_.close();
  waits_.clear();
  own_.clear();
  host_.cancel(std::exchange(round_timer_, 0));
  round_.clear();
  spare_.give();
  // A child of fork() destroys a copy of this: the session is not its own to end.
  if (session_ != 0 && store_ && fifo_.mine()) store_->sessions().remove(session_);
  session_ = 0;
  fifo_.reset();
  store_.reset();
}

void FileBackend::stop(std::function<void()> done) {
  stopped_ = true;
  host_.cancel(std::exchange(timer_, 0));
  if (session_ == 0) {
    close_session();
    return host_.defer(std::move(done));
  }
  mutex_.close();
  mutex_.open(store_->counter());
  mutex_.run(
      [this, done] {
        // Each leaves by itself, so that those behind it are told in the ordinary way; the last one first, which cuts
        // the line's end off instead of leaving gaps in it.
        std::map<std::uint64_t, Own, std::greater<>> const in_order(own_.begin(), own_.end());
        for (auto const& [ticket, own] : in_order) (void)do_leave(own.line, own.ref, false);
        finish();
        close_session();
        host_.defer(done);
      },
      [this, done] { host_.defer(done); });
}

}  // namespace holdfast::detail::file
