#include "zk/watches.hpp"

#include <utility>

namespace holdfast::detail {

WatchId ZkWatches::add(std::string path, std::function<void()> gone) {
  WatchId const id = ++last_;
  auto const [node, fresh] = nodes_.try_emplace(path);
  node->second.waiting.emplace(id, std::move(gone));
  ids_.emplace(id, path);
  if (fresh) begin(path);
  return id;
}

void ZkWatches::begin(std::string const& path) {
  if (bytes_ + path.size() + kPerPath > kBytes) return poll(path);
  bytes_ += path.size() + kPerPath;
  set(path);
}

void ZkWatches::set(std::string const& path) {
  if (!session_.connected()) return;  // resumed() takes it up
  session_.handle().watch(path, [this, path](ZkReply const& reply) {
    auto const node = nodes_.find(path);
    if (node == nodes_.end() || reply.cut()) return;
    if (reply.rc == ZNONODE) return gone(path);
    if (reply.rc == ZOK) {
      node->second.state = State::set;
      return;
    }
    bytes_ -= path.size() + kPerPath;  // not to be read by us: whether it is there can be asked all the same
    node->second.readable = false;
    poll(path);
  });
}

void ZkWatches::poll(std::string const& path) {
  nodes_.at(path).state = State::polled;
  polled_.insert(path);
  if (!session_.connected()) return;
  session_.handle().exists(path, [this, path](ZkReply const& reply) {
    if (reply.rc == ZNONODE) gone(path);
  });
}

void ZkWatches::beat() {
  for (auto const& path : std::exchange(polled_, {})) {
    Node& node = nodes_.at(path);
    if (!node.readable) {
      poll(path);
      continue;
    }
    node.state = State::unset;
    begin(path);  // there may be room for a watch by now
  }
}

void ZkWatches::resumed() {
  for (auto const& [path, node] : nodes_)
    if (node.state == State::unset) set(path);
  beat();
}

void ZkWatches::changed(std::string const& path, bool deleted) {
  auto const node = nodes_.find(path);
  if (node == nodes_.end()) return;
  if (deleted) return gone(path);
  node->second.state = State::unset;  // its data changed, and that used up the watch
  set(path);
}

void ZkWatches::gone(std::string const& path) {
  auto const node = nodes_.find(path);
  if (node == nodes_.end()) return;
  auto const waiting = std::move(node->second.waiting);
  node->second.waiting.clear();
  drop(node);
  for (auto const& [id, tell] : waiting) {
    ids_.erase(id);
    host_.defer(tell);
  }
}

void ZkWatches::forget(WatchId id) {
  auto const known = ids_.find(id);
  if (known == ids_.end()) return;
  auto const node = nodes_.find(known->second);
  ids_.erase(known);
  node->second.waiting.erase(id);
  if (!node->second.waiting.empty()) return;
  if (node->second.state != State::polled && session_.connected()) session_.handle().unwatch(node->first);
  drop(node);
}

void ZkWatches::drop(std::map<std::string, Node>::iterator node) {
  if (node->second.state == State::polled) {
    polled_.erase(node->first);
  } else {
    bytes_ -= node->first.size() + kPerPath;
  }
  nodes_.erase(node);
}

void ZkWatches::clear() {
  nodes_.clear();
  ids_.clear();
  polled_.clear();
  bytes_ = 0;
}

}  // namespace holdfast::detail
