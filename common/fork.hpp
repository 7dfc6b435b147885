#pragma once

// What holdfast does about fork(): the child's copies refuse to act, and the parent's descriptors are closed in the child, since a descriptor
// that a child still has keeps the kernel's lock after the parent's death.

namespace holdfast::detail {

/// How many forks lie between this process and the first one that used the library. An object that remembers the number of its birth knows
/// whether it is a copy in a child.
unsigned fork_generation() noexcept;

/// Has `fd` closed in every child that is forked from now on, until keep_in_child() is called (before closing it here).
void close_in_child(int fd);
void keep_in_child(int fd);

}  // namespace holdfast::detail
