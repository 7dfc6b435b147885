#pragma once

/// holdfast: distributed locks with fences. Include this; the headers below are the manual, best read in this order.

#include <holdfast/client.hpp>
#include <holdfast/commit.hpp>
#include <holdfast/config.hpp>
#include <holdfast/error.hpp>
#include <holdfast/fence.hpp>
#include <holdfast/gate.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/once.hpp>
#include <holdfast/sequencer.hpp>
