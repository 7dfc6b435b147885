#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <utility>

namespace holdfast::detail {

/// Turns a completion handler into a function for any thread, which posts the handler to its associated executor (else
/// to `otherwise`) and never runs it on the spot. Until then that executor is kept busy, so that its run() does not
/// return. If the executor is gone, the handler is destroyed, and whatever it was given with it.
template <class... Args, class Handler>
boost::asio::any_completion_handler<void(Args...)> posting(Handler handler,
                                                           boost::asio::any_io_executor const& otherwise) {
  namespace asio = boost::asio;
  auto executor =
      asio::prefer(asio::get_associated_executor(handler, otherwise), asio::execution::outstanding_work.tracked);
  return [executor, handler = std::move(handler)](Args... args) mutable {
    try {
      asio::post(executor, [handler = std::move(handler), ... args = std::move(args)]() mutable {
        auto slot = asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected()) slot.clear();
        std::move(handler)(std::move(args)...);
      });
    } catch (...) {
      // Nobody is left to tell.
    }
  };
}

}  // namespace holdfast::detail
