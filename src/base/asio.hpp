// Asio as Tidegate uses it: one executor type, one socket type, failures as values.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace tidegate {

namespace asio = boost::asio;
using boost::system::error_code;

// Concrete, so that no socket, timer or coroutine pays for type erasure.
using Executor = asio::io_context::executor_type;

template <class T = void>
using Task = asio::awaitable<T, Executor>;

// TCP and Unix sockets alike: who is at the other end is a value, not a type.
using StreamProtocol = asio::generic::stream_protocol;
using StreamSocket = asio::basic_stream_socket<StreamProtocol, Executor>;
using Acceptor = asio::basic_socket_acceptor<StreamProtocol, Executor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;

inline constexpr asio::use_awaitable_t<Executor> use_task{};
// `auto [ec, ...] = co_await op(as_values);`: errors are values, as everywhere in Tidegate.
inline constexpr auto as_values = asio::as_tuple(use_task);

}  // namespace tidegate
