#include "store/scripts.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include <openssl/evp.h>

#include "store/lua_files.hpp"
#include "store/unroll.hpp"

namespace tidegate::store {
namespace {

using limit::Limit;

// Beyond this a function of Lua has too many locals. Few policies have more limits.
constexpr std::size_t kUnrolledMax = 8;
// As many states as the short way has made its tables for.
constexpr std::size_t kShortWayItems = 4;

std::string sha1_of(std::string_view text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    // The digest of bytes in memory fails only for want of memory.
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
        throw std::bad_alloc();
    }
    std::string out;
    for (unsigned i = 0; i < size; ++i) {
        out += kHex[digest[i] >> 4];
        out += kHex[digest[i] & 0xf];
    }
    return out;
}

// A script and what its views look at.
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

// With the short way for so many limits; for none without.
OwnedScript make_charge_script(std::size_t limits) {
    return {"charge",
            {limits == 0 ? "" : unroll(lua::short_way, limits), lua::state, lua::window,
             lua::bucket, lua::schedule, lua::slots, lua::reading, lua::charge}};
}

const redis::Script& charge_script_for(std::size_t limits) {
    static const std::array<OwnedScript, kUnrolledMax + 1> scripts{
        make_charge_script(0), make_charge_script(1), make_charge_script(2),
        make_charge_script(3), make_charge_script(4), make_charge_script(5),
        make_charge_script(6), make_charge_script(7), make_charge_script(8)};
    return scripts[limits].get();
}

bool is_plain_window(const Limit& limit) {
    return limit.count == limit::Count::admitted && limit.anchor == limit::Anchor::clock &&
           (limit.algorithm == limit::Algorithm::sliding_window ||
            limit.algorithm == limit::Algorithm::fixed_window);
}

bool has_short_way(const limit::Charge& charge) {
    if (charge.items.empty()) return false;
    const limit::ChargeItem& first = charge.items[0];
    const auto limits = first.limits();
    return charge.cost > 0 && charge.items.size() <= kShortWayItems &&
           limits.size() <= kUnrolledMax && !first.policy->shadow &&
           std::all_of(charge.items.begin(), charge.items.end(),
                       [&](const limit::ChargeItem& item) {
                           return item.policy == first.policy && item.tier == first.tier;
                       }) &&
           std::all_of(limits.begin(), limits.end(), is_plain_window);
}

}  // namespace

const redis::Script& charge_script(const limit::Charge& charge) {
    return charge_script_for(has_short_way(charge) ? charge.items[0].limits().size() : 0);
}

const redis::Script& give_back_script() {
    static const OwnedScript script{"give_back",
                                    {lua::state, lua::window, lua::bucket, lua::give_back}};
    return script.get();
}

const redis::Script& renew_script() {
    static const OwnedScript script{"renew", {lua::state, lua::renew}};
    return script.get();
}

const redis::Script& report_script() {
    static const OwnedScript script{
        "report", {lua::state, lua::window, lua::bucket, lua::schedule, lua::reading, lua::report}};
    return script.get();
}

const redis::Script& inspect_script() {
    static const OwnedScript script{
        "inspect",
        {lua::state, lua::window, lua::bucket, lua::schedule, lua::reading, lua::inspect}};
    return script.get();
}

const redis::Script& forget_script() {
    static const OwnedScript script{"forget", {lua::state, lua::forget}};
    return script.get();
}

std::vector<const redis::Script*> all_scripts() {
    std::vector<const redis::Script*> all{&give_back_script(), &renew_script(), &inspect_script(),
                                          &forget_script(), &report_script()};
    for (std::size_t limits = 0; limits <= kUnrolledMax; ++limits) {
        all.push_back(&charge_script_for(limits));
    }
    return all;
}

}  // namespace tidegate::store
