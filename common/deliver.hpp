#pragma once

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

namespace holdfast::detail {

/// Where a handler's completion runs: its associated executor, else `otherwise`; kept busy until then, so that its run() does not return.
template <class Handler>
boost::asio::any_completion_executor completion_executor(Handler const& handler,
                                                         boost::asio::any_io_executor const& otherwise) {
  boost::asio::any_completion_executor const candidate(otherwise);
  return boost::asio::prefer(boost::asio::get_associated_executor(handler, candidate),
                             boost::asio::execution::outstanding_work.tracked);
}

/// Posts `what`; if the executor cannot take it, it is destroyed, and whatever it holds with it.
template <class What>
void deliver(boost::asio::any_completion_executor const& executor, What what) noexcept {
  try {
    boost::asio::post(executor, std::move(what));
  } catch (...) {
    // Nobody is left to tell.
  }
}

}  // namespace holdfast::detail
