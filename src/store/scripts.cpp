#include "store/scripts.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <string>

#include <openssl/evp.h>

#include "base/hex.hpp"
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

OwnedScript long_way(std::string_view front = {}) {
    return {"charge",
            {front, lua::state, lua::window, lua::bucket, lua::schedule, lua::slots, lua::reading,
             lua::charge}};
}

OwnedScript in_front_of_long_way(std::string_view way) {
    const std::string begun = with_lines(way, "--request", lua::short_request);
    return long_way(
        std::string(lua::short_reading).append(with_lines(begun, "--writing", lua::short_writing)));
}

OwnedScript short_way(std::size_t limits) {
    return in_front_of_long_way(
        unroll(with_lines(lua::short_way, "--window", lua::short_window), limits));
}

OwnedScript middle_way() {
    return in_front_of_long_way(
        with_lines(lua::middle_way, "--window", in_loop(lua::short_window)));
}

// The long way alone; with the short way for that many limits; with the middle way.
constexpr std::size_t kLongWay = 0;
constexpr std::size_t kMiddleWay = kUnrolledMax + 1;

const redis::Script& charge_script_for(std::size_t way) {
    static const std::array<OwnedScript, kMiddleWay + 1> scripts{
        long_way(),   short_way(1), short_way(2), short_way(3), short_way(4),
        short_way(5), short_way(6), short_way(7), short_way(8), middle_way()};
    return scripts[way].get();
}

bool is_plain_window(const Limit& limit) {
    return limit.state() == limit::StateKind::windows && limit.count == limit::Count::admitted &&
           !limit.opens_itself();
}

bool is_of_plain_windows(const limit::ChargeItem& item) {
    const auto limits = item.limits();
    return !item.policy->shadow && std::all_of(limits.begin(), limits.end(), is_plain_window);
}

bool has_short_way(std::span<const limit::ChargeItem> items) {
    const std::size_t limits = items[0].limits().size();
    return items.size() <= kShortWayItems && limits <= kUnrolledMax &&
           std::all_of(items.begin(), items.end(), [&](const limit::ChargeItem& item) {
               return item.limits().size() == limits;
           });
}

std::size_t way_of(const limit::Charge& charge) {
    if (charge.cost == 0 || charge.items.empty()) return kLongWay;
    const limit::ChargeItem* before = nullptr;
    for (const limit::ChargeItem& item : charge.items) {
        const bool is_known =
            before != nullptr && item.policy == before->policy && item.tier == before->tier;
        if (!is_known && !is_of_plain_windows(item)) return kLongWay;
        before = &item;
    }
    return has_short_way(charge.items) ? charge.items[0].limits().size() : kMiddleWay;
}

}  // namespace

const redis::Script& charge_script(const limit::Charge& charge) {
    return charge_script_for(way_of(charge));
}

const redis::Script& give_back_script() {
    static const OwnedScript script{"give_back",
                                    {lua::state, lua::window, lua::bucket, lua::give_back}};
    return script.get();
}

const redis::Script& renew_script() {
    static const OwnedScript script{"renew", {lua::state, lua::slots, lua::renew}};
    return script.get();
}

const redis::Script& hold_script() {
    static const OwnedScript script{"hold", {lua::state, lua::slots, lua::hold}};
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
    std::vector<const redis::Script*> all{&give_back_script(), &renew_script(),  &hold_script(),
                                          &inspect_script(),   &forget_script(), &report_script()};
    for (std::size_t way = kLongWay; way <= kMiddleWay; ++way) {
        all.push_back(&charge_script_for(way));
    }
    return all;
}

}  // namespace tidegate::store
