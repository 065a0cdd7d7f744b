// Mistakes in the configuration of a gateway that asks Tidegate: nginx with `auth_request`, Caddy
// with `forward_auth`. Only what is certain is a fault or a warning. Pure.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/ip.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/config.hpp"
#include "doctor/examinations.hpp"
#include "doctor/faces.hpp"
#include "doctor/finding.hpp"
#include "doctor/gateway_text.hpp"
#include "identity/client_ip.hpp"

namespace tidegate::doctor {

namespace {

// Beyond what leads_to() knows: a listener that other machines reach, by a name or an address of
// this one that the configuration does not have.
bool may_lead_to(const config::Address& server, const config::Address& listener) {
    if (server.is_unix() || listener.is_unix() || server.port != listener.port) return false;
    const auto at = parse_ip(listener.host);
    if (!at || is_loopback(*at) || server.host == "localhost") return false;
    return at->is_unspecified() || !parse_ip(server.host);
}

// Of `config`, the listener at which a gateway arrives that asks `server`, a host and port or a
// Unix socket as parse_server_url() takes it. The name of a host may be that of any machine, so
// then the port decides. Null: none.
const config::Listen* listener_asked(const std::string& server, const config::Config& config) {
    const auto url =
        config::parse_server_url(server.starts_with("unix:") ? server : "http://" + server);
    if (!url) return nullptr;
    for (const config::Listen& listen : config.listen) {
        if (config::leads_to(url->address, listen.address)) return &listen;
    }
    for (const config::Listen& listen : config.listen) {
        if (may_lead_to(url->address, listen.address)) return &listen;
    }
    return nullptr;
}

class LineFindings {
  public:
    // `findings` outlives this.
    explicit LineFindings(Findings& findings) : findings_(findings) {}

    // From now on the findings are about line `line`. Nothing was found there yet.
    void begin(int line) {
        line_ = line;
        before_ = findings_.list().size();
    }
    bool are_none() const { return findings_.list().size() == before_; }

    void ok(std::string_view check, const std::string& what) { findings_.ok(check, placed(what)); }
    void warning(std::string_view check, const std::string& what, std::string advice) {
        findings_.warning(check, placed(what), std::move(advice));
    }
    void fault(std::string_view check, const std::string& what, std::string advice) {
        findings_.fault(check, placed(what), std::move(advice));
    }
    // The doctor cannot look at `what`.
    void skip(const std::string& what) {
        findings_.note("gateway.file", placed("not looked at: " + what), {});
    }

  private:
    std::string placed(const std::string& what) const {
        return fmt::format("line {}: {}", line_, what);
    }

    Findings& findings_;
    int line_ = 0;
    std::size_t before_ = 0;
};

// `127.0.0.1:8181` of `http://127.0.0.1:8181`, `unix:/run/x.sock` of `unix//run/x.sock`.
std::string plain_upstream(std::string_view word) {
    constexpr std::string_view kScheme = "http://";
    constexpr std::string_view kUnix = "unix/";
    if (word.starts_with(kUnix)) return "unix:" + std::string(word.substr(kUnix.size()));
    if (word.starts_with(kScheme)) word.remove_prefix(kScheme.size());
    return (word.starts_with(':') ? "localhost" : "") + std::string(word);
}

// The first upstream of a directive that may begin with a matcher; empty: none is written there.
std::string first_upstream(const Directive& directive) {
    for (std::size_t i = 1; i < directive.words.size(); ++i) {
        const std::string& word = directive.words[i];
        const bool is_matcher = word == "*" || word.starts_with('/') || word.starts_with('@');
        if (i > 1 || !is_matcher) return word;
    }
    for (const Directive& one : directive.block) {
        if (one.name() == "to" && one.words.size() > 1) return one.words[1];
    }
    return {};
}

// The fields of the answer that `copy_headers` takes, in lower case: `A` of `A>B`.
std::vector<std::string> copied_fields(const Directive& question) {
    std::vector<std::string> names;
    const auto add = [&](const std::string& word) {
        names.push_back(to_lower(word.substr(0, word.find('>'))));
    };
    for (const Directive& one : question.block) {
        if (one.name() != "copy_headers") continue;
        std::for_each(one.words.begin() + 1, one.words.end(), add);
        for (const Directive& line : one.block) add(line.words.front());
    }
    return names;
}

class CaddyfileCheck {
  public:
    CaddyfileCheck(const config::Config& config, Findings& findings)
        : config_(config), findings_(findings) {}

    void walk(const Directives& list) {
        for (const Directive& one : list) {
            if (one.name() == "forward_auth" || one.name() == "reverse_proxy") look_at(one);
            walk(one.block);
        }
    }

    bool asks() const { return asks_; }

  private:
    void look_at(const Directive& question) {
        findings_.begin(question.line);
        const bool is_short = question.name() == "forward_auth";
        const std::string upstream = first_upstream(question);
        if (upstream.find('{') != upstream.npos) {
            if (is_short) findings_.skip("an upstream with a placeholder");
            return;
        }
        const config::Listen* const listen = listener_asked(plain_upstream(upstream), config_);
        if (listen == nullptr || (!is_short && listen->face != Face::forward_auth)) return;
        asks_ = true;
        const bool is_complete =
            std::none_of(question.block.begin(), question.block.end(),
                         [](const Directive& one) { return one.name() == "import"; });
        if (!is_complete) findings_.skip("what `import` brings");
        if (check_listener(*listen) && is_complete) {
            if (is_short) {
                check_identity(question);
            } else {
                check_fields(question);
            }
        }
        if (!findings_.are_none()) return;
        findings_.ok("gateway.questions", "asks " + listen->address.to_string() + " as it should");
    }

    bool check_listener(const config::Listen& listen) {
        if (listen.face == Face::forward_auth && listen.dialect == config::Dialect::forwarded) {
            return true;
        }
        findings_.fault(
            "gateway.listener",
            fmt::format(
                "asks {}, which does not have `face: forward_auth` and `dialect: forwarded`",
                listen.address.to_string()),
            "write both for that listener, or ask another one");
        return false;
    }

    // Whether the application gets the user from Tidegate alone.
    void check_identity(const Directive& question) {
        const std::vector<std::string> copied = copied_fields(question);
        const config::ForwardAs& names = config_.forward_as;
        const std::vector<std::string> sent{names.user, names.tier, names.client_ip};
        for (const std::string& name : sent) {
            if (name.empty() || std::find(copied.begin(), copied.end(), name) != copied.end()) {
                continue;
            }
            findings_.fault(
                "gateway.identity",
                fmt::format("the application gets {} as the client wrote it", name),
                fmt::format("write `copy_headers {}` in the block of `forward_auth`", name));
        }
        for (const std::string& name : copied) {
            const bool is_limit = name.starts_with("ratelimit") || name.starts_with("x-ratelimit");
            if (is_limit || std::find(sent.begin(), sent.end(), name) != sent.end()) continue;
            findings_.warning("gateway.identity",
                              fmt::format("`copy_headers` has {}, which Tidegate does not "
                                          "send: Caddy 2.6 gives the application the name "
                                          "of a placeholder in it",
                                          name),
                              "remove it there, or add it to `identity.forward_as`");
        }
    }

    // The longer form has to set the fields that `forward_auth` sets by itself.
    void check_fields(const Directive& question) {
        for (const auto& [name, value] :
             {std::pair("x-forwarded-method", "{method}"), std::pair("x-forwarded-uri", "{uri}")}) {
            const bool is_set = std::any_of(
                question.block.begin(), question.block.end(), [&, name = name](const auto& one) {
                    return one.name() == "header_up" && one.words.size() == 3 &&
                           to_lower(one.words[1]) == name;
                });
            if (is_set) continue;
            findings_.fault(
                "gateway.fields",
                fmt::format("does not set {}: Tidegate refuses the question (400), and a client "
                            "that sends the field chooses its route",
                            name),
                fmt::format("write `header_up {} {}` in the block", name, value));
        }
    }

    const config::Config& config_;
    LineFindings findings_;
    bool asks_ = false;
};

// Looks at each question of a Caddyfile to a listener of `config`. False: there is none.
bool check_caddy_questions(const Directives& file, const config::Config& config,
                           Findings& findings) {
    CaddyfileCheck check(config, findings);
    check.walk(file);
    return check.asks();
}

// What the files of one nginx may refer to. Points into the files.
struct NginxNames {
    std::vector<const Directive*> upstreams{};
    const Directive* http = nullptr;  // around the servers; null: no file has it

    void add(const Directives& file);
};

// A block, and those around it.
struct NginxScope {
    const Directive* block;
    const NginxScope* outer;
};

// Directives of one name that hold in a scope: nginx takes those of the innermost block that has
// any. Not certain: an `include` may bring others.
struct InForce {
    std::vector<const Directive*> list{};
    bool is_certain = true;
};

InForce in_force(std::string_view name, const NginxScope* scope) {
    InForce found;
    for (; scope != nullptr && found.list.empty(); scope = scope->outer) {
        // The files that `http` includes are whole servers, as a rule.
        const bool is_http = scope->block->name() == "http";
        for (const Directive& one : scope->block->block) {
            if (one.name() == name) found.list.push_back(&one);
            if (one.name() == "include" && !is_http) found.is_certain = false;
        }
    }
    return found;
}

// Of `proxy_set_header NAME VALUE`.
std::optional<std::string> value_set(const InForce& fields, const std::string& name) {
    for (const Directive* one : fields.list) {
        if (one->words.size() == 3 && to_lower(one->words[1]) == to_lower(name)) {
            return one->words[2];
        }
    }
    return std::nullopt;
}

// `x_user`, as names of variables have `X-User`.
std::string in_variable(const std::string& field) {
    std::string name = to_lower(field);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

// The value of a field that the client sent.
bool is_of_client(const std::string& value, const std::string& field) {
    return to_lower(value) == "$http_" + in_variable(field);
}

const Directive* location_at(const Directive& server, std::string_view path) {
    for (const Directive& one : server.block) {
        if (one.name() != "location" || one.words.size() < 2 || one.words.back() != path) continue;
        if (one.words.size() == 2 || one.words[1] == "=" || one.words[1] == "^~") return &one;
    }
    return nullptr;
}

// A `return` in `block` that gives 429, or the value of a variable; null: none.
const Directive* return_of_429(const Directive& block) {
    for (const Directive& one : block.block) {
        if (one.name() == "return" && one.words.size() > 1 &&
            (one.words[1] == "429" || one.words[1].starts_with('$'))) {
            return &one;
        }
        if (const Directive* const found = return_of_429(one)) return found;
    }
    return nullptr;
}

bool has_directive(const Directive& block, std::string_view name) {
    return std::any_of(block.block.begin(), block.block.end(),
                       [&](const Directive& one) { return one.name() == name; });
}

std::string shown_location(const Directive& location) {
    std::string text;
    for (const std::string& word : location.words) text += (text.empty() ? "" : " ") + word;
    return quote(text);
}

class NginxFileCheck {
  public:
    NginxFileCheck(const NginxNames& names, const config::Config& config, Findings& findings)
        : names_(names), config_(config), findings_(findings) {}

    void walk(const Directives& list, const NginxScope* scope) {
        for (const Directive& one : list) {
            if (one.name() == "auth_request" && one.words.size() == 2 && one.words[1] != "off") {
                look_at(one, scope);
            }
            const NginxScope inner{&one, scope};
            walk(one.block, &inner);
        }
    }

    bool asks() const { return asks_; }

  private:
    void look_at(const Directive& question, const NginxScope* scope) {
        findings_.begin(question.line);
        const NginxScope* server = scope;
        while (server != nullptr && server->block->name() != "server") server = server->outer;
        const Directive* const location =
            server != nullptr ? location_at(*server->block, question.words[1]) : nullptr;
        if (location == nullptr) {
            return findings_.skip(quote(question.words[1]) +
                                  ", which is no location of a server here");
        }
        const NginxScope inside{location, server};
        const InForce passes = in_force("proxy_pass", &inside);
        if (passes.list.empty() || passes.list.front()->words.size() != 2) return;
        const std::string& url = passes.list.front()->words[1];
        if (url.find('$') != url.npos) return findings_.skip("a `proxy_pass` that has a variable");
        const config::Listen* const listen = listener_of(url);
        if (listen == nullptr) return;
        asks_ = true;
        if (check_listener(*listen)) {
            check_question(*location, &inside);
            check_refusals(*server->block, scope);
            check_identity(scope);
        }
        if (!findings_.are_none()) return;
        findings_.ok("gateway.questions",
                     "asks " + listen->address.to_string() + " and uses the answer as it should");
    }

    // The first server of an upstream represents all of them.
    const config::Listen* listener_of(std::string_view url) const {
        constexpr std::string_view kScheme = "http://";
        constexpr std::string_view kUnix = "unix:";
        if (!url.starts_with(kScheme)) return nullptr;
        url.remove_prefix(kScheme.size());
        const std::size_t end =
            url.starts_with(kUnix) ? url.find(':', kUnix.size()) : url.find('/');
        const std::string server(url.substr(0, end));
        for (const Directive* upstream : names_.upstreams) {
            if (upstream->words.size() != 2 || upstream->words[1] != server) continue;
            for (const Directive& one : upstream->block) {
                if (one.name() == "server" && one.words.size() > 1) {
                    return listener_asked(one.words[1], config_);
                }
            }
            return nullptr;
        }
        return listener_asked(server, config_);
    }

    bool check_listener(const config::Listen& listen) {
        if (listen.face == Face::forward_auth && listen.dialect == config::Dialect::nginx) {
            return true;
        }
        findings_.fault(
            "gateway.listener",
            fmt::format("asks {}, which does not have `face: forward_auth` and `dialect: nginx`",
                        listen.address.to_string()),
            "write both for that listener, or ask another one");
        return false;
    }

    // The fields and the body that nginx sends with the question.
    void check_question(const Directive& location, const NginxScope* scope) {
        // Several questions may go to the same place.
        if (std::find(checked_.begin(), checked_.end(), &location) != checked_.end()) return;
        checked_.push_back(&location);
        const InForce fields = in_force("proxy_set_header", scope);
        const std::string chain(identity::field_of(config_.client_ip));
        constexpr const char* kRoute =
            "Tidegate refuses the question (400), and a client that sends the field chooses its "
            "route";
        check_field(location, fields, "X-Original-URI", "$request_uri", kRoute);
        check_field(location, fields, "X-Original-Method", "$request_method", kRoute);
        check_field(location, fields, chain,
                    chain == "forwarded" ? "for=$remote_addr" : "$remote_addr",
                    "a client has no address, and one that sends the field chooses its own");
        check_body(location, fields, scope);
        if (!fields.is_certain)
            findings_.skip("what `include` brings into " + shown_location(location));
    }

    void check_field(const Directive& location, const InForce& fields, const std::string& name,
                     const std::string& value, const std::string& effect) {
        const auto set = value_set(fields, name);
        if (!set && !fields.is_certain) return;
        const std::string place = shown_location(location);
        const std::string advice =
            fmt::format("write `proxy_set_header {} {};` there", name, value);
        if (!set) {
            findings_.fault("gateway.fields",
                            fmt::format("{} does not set {}: {}", place, name, effect), advice);
        } else if (is_of_client(*set, name)) {
            findings_.fault(
                "gateway.fields",
                fmt::format("{} passes {} on as the client wrote it: {}", place, name, effect),
                advice);
        } else if (*set == "$uri" || *set == "$document_uri") {
            findings_.fault(
                "gateway.fields",
                fmt::format("{} sends its own path in {}, so Tidegate takes all requests for "
                            "requests to that path",
                            place, name),
                advice);
        }
    }

    void check_body(const Directive& location, const InForce& fields, const NginxScope* scope) {
        const InForce passes = in_force("proxy_pass_request_body", scope);
        const bool is_off = !passes.list.empty() && passes.list.back()->words.back() == "off";
        const auto length = value_set(fields, "Content-Length");
        const bool announces = length ? !length->empty() : fields.is_certain;
        if ((is_off || !passes.is_certain) && !announces) return;
        findings_.fault(
            "gateway.body",
            shown_location(location) +
                " announces the body of a request and does not send it: Tidegate waits for it",
            "write `proxy_pass_request_body off;` and `proxy_set_header Content-Length \"\";` "
            "there");
    }

    // Whether nginx turns a 403 into the status that Tidegate means.
    void check_refusals(const Directive& server, const NginxScope* scope) {
        const InForce pages = in_force("error_page", scope);
        const auto page = std::find_if(pages.list.begin(), pages.list.end(), [](const auto* one) {
            return std::find(one->words.begin(), one->words.end(), "403") != one->words.end();
        });
        if (page == pages.list.end()) {
            if (!pages.is_certain)
                return findings_.skip("whether an `include` has `error_page 403`");
            return warn_of_status("no `error_page 403` is in force here");
        }
        const std::vector<std::string>& words = (*page)->words;
        const Directive* const target = location_at(server, words.back());
        if (target == nullptr || has_directive(*target, "include")) {
            return findings_.skip("the location of " + quote(words.back()));
        }
        const Directive* const answer = return_of_429(*target);
        if (answer == nullptr) return warn_of_status(shown_location(*target) + " returns no 429");
        const bool keeps_status = std::none_of(
            words.begin(), words.end(), [](const auto& word) { return word.starts_with('='); });
        // With a text, `return` does not replace the status that the error page began with.
        if (keeps_status && answer->words.size() > 2) {
            return warn_of_status("`error_page 403` has no `=`");
        }
        const InForce kept = in_force("auth_request_set", scope);
        constexpr std::string_view kStatus = "$upstream_http_x_tidegate_status";
        const bool is_kept = std::any_of(kept.list.begin(), kept.list.end(), [&](const auto* one) {
            return to_lower(one->words.back()) == kStatus;
        });
        if (!is_kept && kept.is_certain) {
            warn_of_status("no `auth_request_set` keeps $upstream_http_x_tidegate_status");
        }
    }

    void warn_of_status(const std::string& why) {
        findings_.warning("gateway.refusals", "clients do not get 429 as Tidegate means it: " + why,
                          "write `error_page 403 = @tidegate;`, `auth_request_set` and the "
                          "location `@tidegate`, as docs/faces.md has them");
    }

    // Whether the application gets the user from Tidegate alone.
    void check_identity(const NginxScope* scope) {
        if (!has_directive(*scope->block, "proxy_pass")) return;
        const InForce fields = in_force("proxy_set_header", scope);
        const config::ForwardAs& names = config_.forward_as;
        for (const std::string& name : {names.user, names.tier, names.client_ip}) {
            if (name.empty()) continue;
            const auto set = value_set(fields, name);
            if (set ? !is_of_client(*set, name) : !fields.is_certain) continue;
            findings_.fault(
                "gateway.identity",
                fmt::format("the application gets {} as the client wrote it", name),
                fmt::format("add `auth_request_set $tidegate_{0} $upstream_http_{0};` and "
                            "`proxy_set_header {1} $tidegate_{0};`",
                            in_variable(name), name));
        }
    }

    const NginxNames& names_;
    const config::Config& config_;
    LineFindings findings_;
    std::vector<const Directive*> checked_;
    bool asks_ = false;
};

void NginxNames::add(const Directives& file) {
    for (const Directive& one : file) {
        if (one.name() == "upstream") upstreams.push_back(&one);
        if (one.name() != "http") continue;
        http = &one;
        add(one.block);
    }
}

// Looks at each question of a file to a listener of `config`. False: there is none.
bool check_nginx_questions(const Directives& file, const NginxNames& names,
                           const config::Config& config, Findings& findings) {
    NginxFileCheck check(names, config, findings);
    // A file without `http` is a part of it.
    const bool is_whole = std::any_of(file.begin(), file.end(),
                                      [](const Directive& one) { return one.name() == "http"; });
    const NginxScope http{names.http, nullptr};
    check.walk(file, is_whole || names.http == nullptr ? nullptr : &http);
    return check.asks();
}

void note_that_nothing_asks(Findings& findings) {
    findings.note("gateway.questions",
                  "no question to a listener of this configuration was found: `auth_request` "
                  "(nginx) or `forward_auth` (Caddy)",
                  "name the file that has it, and that of the location or upstream it asks; files "
                  "that it includes are not read");
}

}  // namespace

Findings check_gateway_files(std::span<const GatewayFile> files, const config::Config& config) {
    struct Read {
        const GatewayFile* file;
        std::optional<Directives> nginx;
        std::optional<Directives> caddy;
    };
    std::vector<Read> all;
    NginxNames names;
    for (const GatewayFile& file : files) {
        Read read{&file, read_nginx(file.text), {}};
        if (!read.nginx) read.caddy = read_caddyfile(file.text);
        all.push_back(std::move(read));
    }
    // They may refer to each other.
    for (const Read& read : all) {
        if (read.nginx) names.add(*read.nginx);
    }
    Findings findings;
    for (const Read& read : all) {
        Findings of_file("gateway " + read.file->name);
        bool asks = true;
        if (read.nginx) {
            asks = check_nginx_questions(*read.nginx, names, config, of_file);
        } else if (read.caddy) {
            asks = check_caddy_questions(*read.caddy, config, of_file);
        } else {
            of_file.note("gateway.file",
                         "not looked at: it is no configuration of nginx and no Caddyfile, or has "
                         "a part that `doctor` does not understand",
                         "compare it with docs/faces.md");
        }
        if (!asks && of_file.list().empty()) note_that_nothing_asks(of_file);
        findings.append(std::move(of_file));
    }
    return findings;
}

}  // namespace tidegate::doctor
