#include "store/scripts.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include <openssl/evp.h>

#include "base/text.hpp"

namespace tidegate::store {

namespace {

using limit::Limit;

void replace_all(std::string& text, std::string_view name, std::string_view value) {
    for (std::size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at + value.size())) {
        text.replace(at, name.size(), value);
    }
}

std::string with_number(std::string_view text, std::string_view number) {
    std::string out(text);
    replace_all(out, "$", number);
    return out;
}

// The text before the next `begin`, between `begin` and the `end` after it, and after that.
struct Part {
    std::string_view before;
    std::string_view inside;
    std::string_view after;
    bool found = false;
};

Part next_part(std::string_view text, std::string_view begin, std::string_view end) {
    const std::size_t from = text.find(begin);
    const std::size_t to = from == std::string_view::npos ? from : text.find(end, from);
    if (to == std::string_view::npos) return {text, {}, {}, false};
    const std::size_t inside = from + begin.size();
    return {text.substr(0, from), text.substr(inside, to - inside), text.substr(to + end.size()),
            true};
}

// A directive has no space behind its dashes.
std::string without_comments(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::string_view line =
            text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
        text.remove_prefix(line.size());
        const std::string_view words =
            line.substr(std::min(line.find_first_not_of(' '), line.size()));
        if (!words.starts_with("-- ") && words != "--\n") out += line;
    }
    return out;
}

std::string list_of(std::string_view item, std::size_t limits) {
    const bool is_format = item.find('$') == std::string_view::npos;
    std::string out;
    for (std::size_t number = 1; number <= limits; ++number) {
        if (number > 1 && !is_format) out += ", ";
        out += with_number(item, std::to_string(number));
    }
    return out;
}

std::string with_lists(std::string_view text, std::size_t limits) {
    std::string out;
    for (Part part = next_part(text, "{{", "}}"); part.found; part = next_part(text, "{{", "}}")) {
        out.append(part.before).append(list_of(part.inside, limits));
        text = part.after;
    }
    out += text;
    replace_all(out, "LIMITS", std::to_string(limits));
    return out;
}

std::string branch_for(std::string_view branch, std::string_view window, std::size_t limits) {
    std::string windows;
    for (std::size_t number = limits; number >= 1; --number) {
        windows += with_number(window, std::to_string(number));
    }
    std::string out = with_lists(branch, limits);
    replace_all(out, "--each window\n", windows);
    return out;
}

// Up to so many limits of a policy have a branch of the fast path of their own. More branches make
// every decision dearer, as Redis walks through the whole script when it collects garbage.
constexpr std::size_t kUnrolledMax = 4;

// Around the files that lua/claim.lua calls correct().
constexpr std::string_view kCorrectBegins = "local function correct()\n";
constexpr std::string_view kCorrectEnds = "end\n";

std::string sha1_of(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    // The digest of bytes in memory fails only for want of memory.
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
        throw std::bad_alloc();
    }
    std::string out;
    append_hex({digest.data(), size}, out);
    return out;
}

// A script and the data of its views.
class OwnedScript {
  public:
    OwnedScript(std::string_view name, std::initializer_list<std::string_view> parts) {
        for (std::string_view part : parts) text_ += part;
        sha1_ = sha1_of(text_);
        script_ = {name, sha1_, text_};
    }
    OwnedScript(const OwnedScript&) = delete;
    OwnedScript& operator=(const OwnedScript&) = delete;

    const redis::Script& get() const { return script_; }

  private:
    std::string text_;
    std::string sha1_;
    redis::Script script_;
};

// What the algorithms do in `script`: of the file of each, the lines that are for it
// (lua/algorithms.lua).
std::string algorithms_for(std::string_view script) {
    std::string text;
    std::string_view before;
    for (const limit::AlgorithmTraits& traits : limit::kAlgorithms) {
        if (traits.lua != before) text += lines_for(lua_file(traits.lua), script);
        before = traits.lua;
    }
    return text;
}

// What each script needs that counts by algorithms.
std::string counting(std::string_view script) {
    return std::string(lua_file("state"))
        .append(lines_for(lua_file("algorithms"), script))
        .append(algorithms_for(script));
}

OwnedScript charge_with(std::string_view front) {
    return {"charge", {front, counting("charge"), lua_file("read_states"), lua_file("charge")}};
}

// Decides every charge.
const redis::Script& general_script() {
    static const OwnedScript script = charge_with({});
    return script.get();
}

// The same, with the fast path for plain windows in front.
const redis::Script& windows_script() {
    static const OwnedScript script =
        charge_with(unroll(lua_file("fast_path"), lua_file("fast_path_window"), kUnrolledMax));
    return script.get();
}

bool is_of_plain_windows(const limit::ChargeItem& item) {
    const auto limits = item.limits();
    return item.policy->is_enforced() && item.own_cost != 0 &&
           std::all_of(limits.begin(), limits.end(),
                       [](const Limit& limit) { return limit.has_fast_path(); });
}

bool has_fast_path(const limit::Charge& charge) {
    if (charge.cost == 0 || charge.items.empty()) return false;
    const limit::ChargeItem* before = nullptr;
    for (const limit::ChargeItem& item : charge.items) {
        const bool is_known = before != nullptr && item.policy == before->policy &&
                              item.tier == before->tier && item.own_cost == before->own_cost;
        if (!is_known && !is_of_plain_windows(item)) return false;
        before = &item;
    }
    return true;
}

}  // namespace

std::string unroll(std::string_view text, std::string_view window, std::size_t most) {
    const std::string code = without_comments(text);
    const std::string window_code = without_comments(window);
    const Part part = next_part(code, "--each number of limits\n", "--end\n");
    std::string out = with_lists(part.before, most);
    replace_all(out, "--window\n", with_number(window_code, ""));
    for (std::size_t limits = 1; part.found && limits <= most; ++limits) {
        out += branch_for(part.inside, window_code, limits);
    }
    return out += with_lists(part.after, most);
}

std::string lines_for(std::string_view text, std::string_view script) {
    constexpr std::string_view kFor = "--for ";
    std::string out;
    bool is_for_it = true;
    while (!text.empty()) {
        const std::string_view line =
            text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
        text.remove_prefix(line.size());
        if (line.starts_with(kFor)) {
            const std::string names =
                ' ' + std::string(line.substr(kFor.size(), line.size() - kFor.size() - 1)) + ' ';
            is_for_it = names.find(' ' + std::string(script) + ' ') != std::string::npos;
        } else if (is_for_it) {
            out += line;
        }
    }
    return without_comments(out);
}

const redis::Script& charge_script(const limit::Charge& charge) {
    return has_fast_path(charge) ? windows_script() : general_script();
}

const redis::Script& give_back_script() {
    static const OwnedScript script{"give_back", {counting("give_back"), lua_file("give_back")}};
    return script.get();
}

const redis::Script& settle_less_script() {
    static const OwnedScript script{"settle_less",
                                    {counting("give_back"), lua_file("claim"), kCorrectBegins,
                                     lua_file("give_back"), kCorrectEnds, lua_file("settle_less")}};
    return script.get();
}

const redis::Script& settle_more_script() {
    static const OwnedScript script{
        "settle_more",
        {counting("charge"), lua_file("claim"), kCorrectBegins, lua_file("read_states"),
         lua_file("charge"), kCorrectEnds, lua_file("settle_more")}};
    return script.get();
}

const redis::Script& renew_script() {
    static const OwnedScript script{
        "renew", {lua_file("state"), algorithms_for("renew"), lua_file("renew")}};
    return script.get();
}

const redis::Script& hold_script() {
    static const OwnedScript script{"hold",
                                    {lua_file("state"), algorithms_for("hold"), lua_file("hold")}};
    return script.get();
}

const redis::Script& report_script() {
    static const OwnedScript script{
        "report", {counting("report"), lua_file("read_states"), lua_file("report")}};
    return script.get();
}

const redis::Script& report_once_script() {
    static const OwnedScript script{
        "report_once",
        {counting("report"), lua_file("claim"), kCorrectBegins, lua_file("read_states"),
         lua_file("report"), kCorrectEnds, lua_file("settle_more")}};
    return script.get();
}

const redis::Script& inspect_script() {
    static const OwnedScript script{
        "inspect", {counting("inspect"), lua_file("read_states"), lua_file("inspect")}};
    return script.get();
}

const redis::Script& forget_script() {
    static const OwnedScript script{"forget", {lua_file("state"), lua_file("forget")}};
    return script.get();
}

std::vector<const redis::Script*> all_scripts() {
    return {&general_script(),     &windows_script(), &give_back_script(), &settle_less_script(),
            &settle_more_script(), &renew_script(),   &hold_script(),      &report_script(),
            &report_once_script(), &inspect_script(), &forget_script()};
}

}  // namespace tidegate::store
