// Asio and its TLS are compiled here, once.
#include "net/asio.hpp"

#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
