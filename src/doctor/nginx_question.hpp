// What nginx asks with `auth_request`, and what becomes of the answer. Pure.
#pragma once

#include <vector>

#include "config/config.hpp"
#include "doctor/finding.hpp"
#include "doctor/gateway_text.hpp"

namespace tidegate::doctor {

// What the files of one nginx may refer to. Points into the files.
struct NginxNames {
    std::vector<const Directive*> upstreams{};
    const Directive* http = nullptr;  // around the servers; null: no file has it

    void add(const Directives& file);
};

// Looks at each question of a file to a listener of `config`. False: there is none.
bool check_nginx_questions(const Directives& file, const NginxNames& names,
                           const config::Config& config, Findings& findings);

}  // namespace tidegate::doctor
