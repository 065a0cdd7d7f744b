// Where the configuration of this process comes from.
#pragma once

#include <string>
#include <vector>

#include "config/files_read.hpp"

namespace tidegate::app {

struct Origin {
    std::string file;  // reloads read it again; empty: the configuration is built in
    std::vector<config::FileRead> files_read;
    bool is_watched = false;  // changes of these files are put in force without a signal
};

}  // namespace tidegate::app
