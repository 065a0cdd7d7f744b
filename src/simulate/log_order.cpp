#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "simulate/log.hpp"

namespace tidegate::simulate {

namespace {

constexpr std::int64_t kMicros = 1'000'000;

// What is kept of a request: this, the sizes of its texts and values, the numbers but for status
// and duration if there are any, then the texts.
struct Kept {
    std::int64_t time;
    std::int64_t duration_us;
    std::int16_t status;
    std::uint8_t is_whole_second;
    std::uint8_t is_end;
    std::uint8_t has_numbers;
    std::uint8_t has_address;
    IpAddress address;
    std::uint16_t values;
    std::array<std::uint16_t, kLogTexts> sizes;
};

constexpr std::size_t kFirstRareNumber = 2;
static_assert(static_cast<std::size_t>(LogNumber::status) == 0 &&
              static_cast<std::size_t>(LogNumber::duration_us) == 1);

template <class Value>
char* put(char* to, const Value& value) {
    std::memcpy(to, &value, sizeof(value));
    return to + sizeof(value);
}

char* put(char* to, std::string_view text) {
    if (!text.empty()) std::memcpy(to, text.data(), text.size());
    return to + text.size();
}

template <class Value>
const char* get(const char* from, Value& value) {
    std::memcpy(&value, from, sizeof(value));
    return from + sizeof(value);
}

void append(const LoggedRequest& request, std::vector<char>& bytes) {
    Kept kept{};
    kept.time = request.time.count();
    kept.duration_us = request.number(LogNumber::duration_us);
    kept.status = static_cast<std::int16_t>(
        std::clamp<std::int64_t>(request.number(LogNumber::status), -1, 999));
    kept.is_whole_second = request.is_whole_second ? 1 : 0;
    kept.is_end = request.is_end ? 1 : 0;
    const auto* const rare = request.numbers.data() + kFirstRareNumber;
    const auto* const end = request.numbers.data() + kLogNumbers;
    kept.has_numbers =
        std::any_of(rare, end, [](std::int64_t one) { return one != LoggedRequest::kUnknown; });
    kept.has_address = request.address ? 1 : 0;
    kept.address = request.address.value_or(IpAddress{});
    kept.values = static_cast<std::uint16_t>(request.values.size());
    std::size_t size = sizeof(Kept) + request.values.size() * sizeof(std::uint16_t);
    if (kept.has_numbers != 0) size += static_cast<std::size_t>(end - rare) * sizeof(*rare);
    for (std::size_t i = 0; i < kLogTexts; ++i) {
        kept.sizes[i] = static_cast<std::uint16_t>(request.texts[i].size());
        size += request.texts[i].size();
    }
    for (const std::string_view value : request.values) size += value.size();
    const std::size_t begin = bytes.size();
    bytes.resize(begin + size);
    char* to = put(bytes.data() + begin, kept);
    for (const std::string_view value : request.values) {
        to = put(to, static_cast<std::uint16_t>(value.size()));
    }
    if (kept.has_numbers != 0) {
        for (const auto* number = rare; number != end; ++number) to = put(to, *number);
    }
    for (const std::string_view text : request.texts) to = put(to, text);
    for (const std::string_view value : request.values) to = put(to, value);
}

void read_back(const char* from, LoggedRequest& request) {
    Kept kept;
    from = get(from, kept);
    request.time = Micros{kept.time};
    request.is_whole_second = kept.is_whole_second != 0;
    request.is_end = kept.is_end != 0;
    request.numbers.fill(LoggedRequest::kUnknown);
    request.number(LogNumber::status) = kept.status;
    request.number(LogNumber::duration_us) = kept.duration_us;
    request.address.reset();
    if (kept.has_address != 0) request.address = kept.address;
    request.values.resize(kept.values);
    const char* const sizes = from;
    from += request.values.size() * sizeof(std::uint16_t);
    if (kept.has_numbers != 0) {
        for (std::size_t i = kFirstRareNumber; i < kLogNumbers; ++i) {
            from = get(from, request.numbers[i]);
        }
    }
    for (std::size_t i = 0; i < kLogTexts; ++i) {
        request.texts[i] = {from, kept.sizes[i]};
        from += kept.sizes[i];
    }
    for (std::size_t i = 0; i < request.values.size(); ++i) {
        std::uint16_t size = 0;
        get(sizes + i * sizeof(size), size);
        request.values[i] = {from, size};
        from += size;
    }
}

}  // namespace

LogOrder::LogOrder(UseRequests release, std::int64_t seconds, std::size_t bytes_max)
    : release_(std::move(release)),
      window_(std::clamp<std::int64_t>(seconds, 1, kOrderSecondsMax)),
      bytes_max_(bytes_max),
      seconds_(std::bit_ceil(static_cast<std::size_t>(window_) + 2)) {}

bool LogOrder::add(const LoggedRequest& request) {
    const std::int64_t second = request.time.count() / kMicros;
    if (newest_ < 0) newest_ = oldest_ = second;
    if (second < newest_ - window_) return false;
    if (second > newest_) {
        hand_out_before(second - window_);
        newest_ = second;
    }
    oldest_ = std::min(oldest_, second);
    Second& to = second_at(second);
    const std::size_t before = to.bytes.size();
    to.places.push_back({request.time.count(), before});
    append(request, to.bytes);
    if (request.is_whole_second) ++to.whole;
    bytes_ += to.bytes.size() - before + sizeof(Place);
    // All but the newest seconds go early where too many requests would wait.
    for (; bytes_ > bytes_max_ && oldest_ <= newest_; ++oldest_) hand_out(oldest_);
    return true;
}

void LogOrder::hand_out_before(std::int64_t second) {
    const std::int64_t end = std::min(second, newest_ + 1);
    for (; oldest_ < end; ++oldest_) hand_out(oldest_);
    oldest_ = std::max(oldest_, second);
}

void LogOrder::finish() {
    if (newest_ >= 0) hand_out_before(newest_ + 1);
    newest_ = -1;
}

void LogOrder::hand_out(std::int64_t second) {
    Second& of = second_at(second);
    if (of.places.empty()) return;
    if (of.whole > 0) {
        std::int64_t number = 0;
        const auto count = static_cast<std::int64_t>(of.whole);
        for (Place& place : of.places) {
            Kept kept;
            get(of.bytes.data() + place.offset, kept);
            if (kept.is_whole_second != 0) place.time += number++ * kMicros / count;
        }
    }
    const auto earlier = [](const Place& a, const Place& b) { return a.time < b.time; };
    if (!std::is_sorted(of.places.begin(), of.places.end(), earlier)) {
        std::stable_sort(of.places.begin(), of.places.end(), earlier);
    }
    for (std::size_t next = 0; next < of.places.size();) {
        const std::size_t count = std::min(requests_.size(), of.places.size() - next);
        for (std::size_t i = 0; i < count; ++i) {
            const Place& place = of.places[next++];
            read_back(of.bytes.data() + place.offset, requests_[i]);
            requests_[i].time = Micros{place.time};
            requests_[i].is_whole_second = false;
        }
        release_(std::span(requests_).first(count));
    }
    bytes_ -= of.bytes.size() + of.places.size() * sizeof(Place);
    of.bytes.clear();
    of.places.clear();
    of.whole = 0;
}

}  // namespace tidegate::simulate
