// Asio is compiled here, once.
#include "net/asio.hpp"

#include <boost/asio/impl/src.hpp>
