#include "etcd/watches.hpp"

namespace holdfast::detail::etcd {

using namespace std::chrono_literals;

namespace {

constexpr Duration kPause = 100ms;  ///< after a watch or a read was refused, though the member answers

}  // namespace

Watches::Id Watches::add(KeyRange range, std::int64_t limit, Listener listener) {
  Id const id = ++last_;
  watches_.emplace(id, Watch{std::move(range), limit, std::move(listener), 0, {}, {}, {}, false});
  if (members_.wire() != nullptr) begin(id);
  return id;
}

void Watches::remove(Id id) {
  auto const place = watches_.find(id);
  if (place == watches_.end()) return;
  cancel_on_stream(place->second);
  watches_.erase(place);
}

void Watches::clear() {
  while (!watches_.empty()) remove(watches_.begin()->first);
}

void Watches::connected() {
  std::vector<Id> all;
  for (auto const& [id, watch] : watches_) all.push_back(id);
  for (Id const id : all) begin(id);
}

void Watches::disconnected() {
  by_stream_.clear();
  for (auto& [id, watch] : watches_) {
    watch.on_stream = 0;
    watch.listener.broken();
  }
}

void Watches::begin(Id id) {
  Watch& watch = watches_.at(id);
  watch.created.reset();
  watch.read.reset();
  watch.early.clear();
  watch.synced = false;
  watch.on_stream = ++last_;
  by_stream_[watch.on_stream] = id;
  pb::WatchRequest request;
  auto& create = *request.mutable_create_request();
  create.set_key(watch.range.key);
  create.set_range_end(watch.range.end);
  create.add_filters(pb::WatchCreateRequest::NOPUT);
  create.set_watch_id(watch.on_stream);
  members_.wire()->watch(std::move(request));
  send_read(id);
}

void Watches::send_read(Id id) {
  Watch const& watch = watches_.at(id);
  pb::RangeRequest request;
  request.set_key(watch.range.key);
  request.set_range_end(watch.range.end);
  request.set_serializable(true);
  request.set_keys_only(true);
  request.set_limit(watch.limit);
  request.set_sort_order(pb::RangeRequest::ASCEND);
  request.set_sort_target(pb::RangeRequest::CREATE);
  members_.wire()->range(
      std::move(request), [this, id, stream = watch.on_stream](Failure const& why, pb::RangeResponse const& response) {
        auto const place = watches_.find(id);
        if (place == watches_.end() || place->second.on_stream != stream) return;
        if (why.kind() == Failure::Kind::connection || why.kind() == Failure::Kind::credentials)
          return members_.fail(why);
        if (why) {
          host_.at(host_.now() + kPause, [this, id, stream] {
            auto const still = watches_.find(id);
            if (still != watches_.end() && still->second.on_stream == stream && members_.wire() != nullptr)
              send_read(id);
          });
          return;
        }
        place->second.read = response;
        compare(id);
      });
}

void Watches::cancel_on_stream(Watch& watch) {
  Id const on_stream = std::exchange(watch.on_stream, 0);
  if (on_stream == 0 || members_.wire() == nullptr) return;
  by_stream_.erase(on_stream);
  pb::WatchRequest request;
  request.mutable_cancel_request()->set_watch_id(on_stream);
  members_.wire()->watch(std::move(request));
}

void Watches::heard(pb::WatchResponse const& response) {
  auto const known = by_stream_.find(response.watch_id());
  if (known == by_stream_.end()) return;
  Id const id = known->second;
  Watch& watch = watches_.at(id);
  if (response.canceled()) {
    Id const stream = std::exchange(watch.on_stream, 0);
    by_stream_.erase(stream);
    watch.listener.broken();
    host_.at(host_.now() + kPause, [this, id] {
      auto const still = watches_.find(id);
      if (still != watches_.end() && still->second.on_stream == 0 && members_.wire() != nullptr) begin(id);
    });
    return;
  }
  if (response.created()) {
    watch.created = response.header();
    return compare(id);
  }
  if (!watch.synced) return watch.early.push_back(response);
  tell(id, response);
}

void Watches::tell(Id id, pb::WatchResponse const& response) {
  auto const watch = watches_.find(id);
  if (watch == watches_.end()) return;
  auto const deleted = watch->second.listener.deleted;  // the watch may be gone by the time this returns
  for (auto const& event : response.events())
    if (event.type() == pb::Event::DELETE) deleted(event.kv().key(), event.kv().mod_revision());
}

/// Once both the watch and the read are there: do they fit together?
void Watches::compare(Id id) {
  Watch& watch = watches_.at(id);
  if (!watch.created || !watch.read || watch.synced) return;
  auto const& header = watch.read->header();
  if (header.member_id() != watch.created->member_id() || header.revision() < watch.created->revision()) {
    watch.read.reset();
    return send_read(id);
  }
  watch.synced = true;
  pb::RangeResponse const read = std::exchange(watch.read, std::nullopt).value();
  Present present{{}, !read.more(), read.header().revision()};
  for (auto const& key : read.kvs()) present.keys.push_back(&key);
  auto const early = std::exchange(watch.early, {});
  auto const synced = watch.listener.synced;
  synced(present);
  for (auto const& response : early) tell(id, response);
}

}  // namespace holdfast::detail::etcd
