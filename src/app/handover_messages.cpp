#include "app/handover_messages.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/hex.hpp"
#include "base/json_text.hpp"
#include "base/strict_json.hpp"

namespace tidegate::app {

namespace {

// In the order of HandoverStep.
constexpr std::array<std::string_view, 13> kSteps{
    "",       "hello", "listener",  "admin",   "offered", "ready", "tickets",
    "counts", "go",    "accepting", "started", "leaving", "stop"};
static_assert(kSteps.size() == static_cast<std::size_t>(HandoverStep::stop) + 1);

using std::chrono::duration_cast;

std::string hex_of_key(const TicketKey& key) {
    std::string text;
    append_hex(std::span(key.name), text);
    append_hex(std::span(key.mac), text);
    append_hex(std::span(key.cipher), text);
    return text;
}

template <std::size_t kBytes>
bool read_hex(std::string_view& text, std::array<unsigned char, kBytes>& into) {
    if (text.size() < 2 * kBytes) return false;
    for (std::size_t i = 0; i < kBytes; ++i) {
        const int byte = hex_byte(text[2 * i], text[2 * i + 1]);
        if (byte < 0) return false;
        into[i] = static_cast<unsigned char>(byte);
    }
    text.remove_prefix(2 * kBytes);
    return true;
}

std::int64_t number_of(const JsonValue& object, const char* name) {
    const JsonValue* const found = find_member(object, name);
    return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

bool read_keys(const JsonValue& object, MadeTicketKeys& keys) {
    const JsonValue* const list = find_member(object, "keys");
    if (list == nullptr || !list->is_array()) return false;
    for (const JsonValue& one : *list) {
        if (!one.is_object()) return false;
        std::string_view text = string_member(one, "key").value_or("");
        TicketKey key;
        if (!read_hex(text, key.name) || !read_hex(text, key.mac) || !read_hex(text, key.cipher)) {
            return false;
        }
        keys.emplace_back(key,
                          TicketKeys::Time(std::chrono::microseconds(number_of(one, "made_us"))));
    }
    return true;
}

}  // namespace

std::string to_text(const HandoverNote& note) {
    nlohmann::ordered_json object{{"step", kSteps[static_cast<std::size_t>(note.step)]}};
    if (note.step == HandoverStep::hello) {
        object["version"] = note.version;
        object["clock_offset_us"] = note.clock_offset.count();
    }
    if (note.pid != 0) object["pid"] = note.pid;
    if (!note.address.empty()) object["address"] = note.address;
    for (const auto& [key, made] : note.ticket_keys) {
        const auto made_us = duration_cast<limit::Micros>(made.time_since_epoch());
        object["keys"].push_back({{"key", hex_of_key(key)}, {"made_us", made_us.count()}});
    }
    return json_text(object);
}

std::optional<HandoverNote> parse_handover_note(std::string_view text) {
    const auto object = parse_json_object(text);
    if (!object) return std::nullopt;
    HandoverNote note;
    const auto step = std::find(kSteps.begin(), kSteps.end(), string_member(*object, "step"));
    if (step != kSteps.end()) note.step = static_cast<HandoverStep>(step - kSteps.begin());
    note.version = string_member(*object, "version").value_or("");
    note.pid = static_cast<pid_t>(number_of(*object, "pid"));
    note.clock_offset = limit::Micros{number_of(*object, "clock_offset_us")};
    note.address = string_member(*object, "address").value_or("");
    if (note.step == HandoverStep::tickets && !read_keys(*object, note.ticket_keys)) {
        return std::nullopt;
    }
    return note;
}

}  // namespace tidegate::app
