#include "doctor/caddy_question.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/ascii.hpp"
#include "base/quote.hpp"
#include "doctor/gateway_file.hpp"
#include "doctor/line_findings.hpp"

namespace tidegate::doctor {

namespace {

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

}  // namespace

bool check_caddy_questions(const Directives& file, const config::Config& config,
                           Findings& findings) {
    CaddyfileCheck check(config, findings);
    check.walk(file);
    return check.asks();
}

}  // namespace tidegate::doctor
