#pragma once

#include <functional>

// What holdfast does about fork(): the child's copies refuse to act, and the parent's descriptors are closed in the
// child, since a descriptor that a child still has keeps the kernel's lock after the parent's death.

namespace holdfast::detail {

/// How many forks lie between this process and the first one that used the library. An object that remembers the number
/// of its birth knows whether it is a copy in a child.
unsigned fork_generation() noexcept;

/// Opens a descriptor that every child forked from now on gets closed: also one that is forked by another thread in
/// this very moment.
int open_here_only(std::function<int()> const& open);
/// Closes such a descriptor.
void close_here_only(int fd);

/// The same for a descriptor that is no harm to a child forked in between. It may be closed by others without
/// keep_in_child(): what then has its number stays open in children.
void close_in_child(int fd);
void keep_in_child(int fd);

}  // namespace holdfast::detail
