// Boost.JSON is a part of this program: Debian's library of it would be one more package to
// install.
#include <boost/json/src.hpp>
