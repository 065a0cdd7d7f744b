#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "ask/verdict.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "client/stream.hpp"
#include "faces/check_call.hpp"
#include "faces/check_question.hpp"
#include "faces/faces.hpp"
#include "http/field.hpp"
#include "identity/digest.hpp"
#include "identity/jwk.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"
#include "proxy/fault_answer.hpp"
#include "proxy/record.hpp"
#include "proxy/request.hpp"
#include "store/limiter.hpp"
#include "store/reservation.hpp"

namespace tidegate::faces {

namespace {

constexpr std::size_t kIvBytes = 12;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kNonceBytes = 16;
constexpr std::size_t kIdBytesMax = 65'536;

struct ReleaseCipher {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, ReleaseCipher>;

unsigned char* bytes_of(std::string& text) {
    return reinterpret_cast<unsigned char*>(text.data());
}

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

std::string random_bytes(std::size_t count) {
    std::string bytes(count, '\0');
    if (RAND_bytes(bytes_of(bytes), static_cast<int>(count)) != 1) {
        throw std::runtime_error("OpenSSL has no random numbers");
    }
    return bytes;
}

// Behind `iv`: the text, encrypted, and its tag.
std::string encrypted(std::string_view key, std::string_view iv, std::string_view text) {
    const Cipher context(EVP_CIPHER_CTX_new());
    std::string out(iv);
    out.resize(iv.size() + text.size() + kTagBytes);
    unsigned char* const begin = bytes_of(out) + iv.size();
    int size = 0;
    int rest = 0;
    const bool done = context &&
                      EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key),
                                         bytes_of(iv)) == 1 &&
                      EVP_EncryptUpdate(context.get(), begin, &size, bytes_of(text),
                                        static_cast<int>(text.size())) == 1 &&
                      EVP_EncryptFinal_ex(context.get(), begin + size, &rest) == 1 &&
                      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                                          begin + text.size()) == 1;
    if (!done) throw std::runtime_error("OpenSSL cannot encrypt with AES-256-GCM");
    return out;
}

// Nothing: the tag is not of this text and key.
std::optional<std::string> decrypted(std::string_view key, std::string_view sealed) {
    if (sealed.size() < kIvBytes + kTagBytes) return std::nullopt;
    const std::string_view iv = sealed.substr(0, kIvBytes);
    const std::string_view text = sealed.substr(kIvBytes, sealed.size() - kIvBytes - kTagBytes);
    std::string tag(sealed.substr(sealed.size() - kTagBytes));
    const Cipher context(EVP_CIPHER_CTX_new());
    std::string out(text.size(), '\0');
    int size = 0;
    int rest = 0;
    const bool done =
        context &&
        EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key),
                           bytes_of(iv)) == 1 &&
        EVP_DecryptUpdate(context.get(), bytes_of(out), &size, bytes_of(text),
                          static_cast<int>(text.size())) == 1 &&
        EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
        EVP_DecryptFinal_ex(context.get(), bytes_of(out) + size, &rest) == 1;
    if (!done) return std::nullopt;
    return out;
}

std::string base64url(std::string_view bytes) {
    std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    out.resize(static_cast<std::size_t>(
        EVP_EncodeBlock(bytes_of(out), bytes_of(bytes), static_cast<int>(bytes.size()))));
    while (out.ends_with('=')) out.pop_back();
    for (char& c : out) c = c == '+' ? '-' : c == '/' ? '_' : c;
    return out;
}

constexpr std::size_t kTakenBytes = 8;

void append_word(std::uint32_t word, std::string& out) {
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(word >> shift & 0xff);
}

std::uint32_t word_at(std::string_view bytes) {
    std::uint32_t word = 0;
    for (int i = 3; i >= 0; --i) word = word << 8 | static_cast<unsigned char>(bytes[i]);
    return word;
}

// Packed, so that the id of the largest reservation fits into a call.
std::string packed(const std::vector<store::Reservation::Taken>& limits) {
    std::string bytes;
    for (const store::Reservation::Taken& one : limits) {
        append_word(one.limit, bytes);
        append_word(one.quota, bytes);
    }
    return base64url(bytes);
}

std::vector<store::Reservation::Taken> unpacked(const std::string& text) {
    const std::string bytes = identity::decode_base64url(text).value_or("");
    std::vector<store::Reservation::Taken> limits;
    for (std::size_t i = 0; i + kTakenBytes <= bytes.size(); i += kTakenBytes) {
        const std::string_view one = std::string_view(bytes).substr(i);
        limits.push_back({word_at(one), word_at(one.substr(kTakenBytes / 2))});
    }
    return limits;
}

nlohmann::ordered_json json_of(const SealedReservation& content) {
    using Json = nlohmann::ordered_json;
    Json parts = Json::array();
    for (const store::Reservation::Part& part : content.reservation.parts) {
        Json items = Json::array();
        for (const auto& item : part.items) {
            items.push_back(
                {item.policy, item.tier, item.identifier, item.generation, packed(item.limits)});
        }
        parts.push_back({part.in_redis, part.at.count(), std::move(items)});
    }
    const auto expires =
        std::chrono::duration_cast<std::chrono::milliseconds>(content.expires.time_since_epoch());
    return {{"c", content.reservation.cost},
            {"e", expires.count()},
            {"m", content.reservation.moment.count()},
            {"n", content.nonce},
            {"p", content.process},
            {"t", std::move(parts)}};
}

// Text that this program has sealed: an unexpected character throws, and the id is refused.
SealedReservation content_of(const JsonValue& json) {
    SealedReservation content;
    content.reservation.cost = json.at("c").get<std::int64_t>();
    content.reservation.moment = limit::Micros{json.at("m").get<std::int64_t>()};
    content.expires = std::chrono::system_clock::time_point(
        std::chrono::milliseconds{json.at("e").get<std::int64_t>()});
    content.nonce = json.at("n").get<std::string>();
    content.process = json.at("p").get<std::string>();
    for (const JsonValue& part : json.at("t")) {
        store::Reservation::Part& to = content.reservation.parts.emplace_back();
        to.in_redis = part.at(0).get<bool>();
        to.at = limit::Micros{part.at(1).get<std::int64_t>()};
        for (const JsonValue& item : part.at(2)) {
            to.items.push_back({item.at(0).get<std::string>(), item.at(1).get<std::string>(),
                                item.at(2).get<std::string>(), item.at(3).get<std::uint64_t>(),
                                unpacked(item.at(4).get<std::string>())});
        }
    }
    return content;
}

}  // namespace

IdSeal::IdSeal(std::string_view secret) {
    const identity::Sha256 digest = identity::sha256(secret);
    key_.assign(reinterpret_cast<const char*>(digest.data()), digest.size());
}

std::string IdSeal::seal(SealedReservation& content) const {
    content.nonce.clear();
    const std::string nonce = random_bytes(kNonceBytes);
    for (const char c : nonce) {
        const auto byte = static_cast<unsigned char>(c);
        content.nonce += kHexDigits[byte >> 4];
        content.nonce += kHexDigits[byte & 15];
    }
    return base64url(
        encrypted(key_, random_bytes(kIvBytes), json_text(json_of(content), {.strict = true})));
}

std::optional<SealedReservation> IdSeal::open(std::string_view id) const {
    if (id.size() > kIdBytesMax) return std::nullopt;
    const auto sealed = identity::decode_base64url(id);
    if (!sealed) return std::nullopt;
    const auto text = decrypted(key_, *sealed);
    if (!text) return std::nullopt;
    const auto json = parse_json_object(*text);
    if (!json) return std::nullopt;
    try {
        return content_of(*json);
    } catch (const JsonValue::exception&) {
        return std::nullopt;
    }
}

namespace {

struct Settled {
    enum class State : std::uint8_t {
        settled,
        // The same settle may be sent again, and does what is left:
        no_redis,   // Redis did not answer
        uncounted,  // more was spent, and the memory of this process has no room for it
        settling,   // another call is settling it now
        full,       // too many reservations are remembered
        // Not here:
        elsewhere,  // counted in the memory of another process
        in_redis,   // counted in Redis, and this process counts in its memory
    };
    State state = State::settled;
    std::int64_t cost = 0;  // settled: its own, or that of the call that has settled it before
};

using std::chrono::milliseconds;

// For how long after its end a settled reservation is remembered: longer than clocks differ.
constexpr std::chrono::minutes kRememberedFor{10};

class Settling {
  public:
    using State = Settled::State;

    Settling(const CheckFace& face, proxy::Exchange& exchange, const SealedReservation& reserved,
             milliseconds left)
        : face_(face),
          x_(exchange),
          limiter_(face.worker.engine.limiter()),
          reserved_(reserved),
          remembered_for_(left + kRememberedFor) {}

    Task<Settled> run(std::int64_t cost) {
        const bool is_in_redis = has_part(true);
        const bool is_ours = reserved_.process == face_.reservations.process;
        if (is_in_redis && limiter_.redis() == nullptr) co_return Settled{State::in_redis};
        if (!is_in_redis && !is_ours) co_return Settled{State::elsewhere};
        Settled settled{State::settled, cost};
        if (is_in_redis) {
            settled = co_await settle_redis(cost);
            if (settled.state != State::settled) co_return settled;
        }
        // What another process counts in its own memory expires there.
        if (is_ours && (!is_in_redis || has_part(false))) {
            settled = co_await settle_here(settled.cost);
        }
        co_return settled;
    }

  private:
    bool has_part(bool in_redis) const {
        const auto& parts = reserved_.reservation.parts;
        return std::any_of(parts.begin(), parts.end(),
                           [&](const auto& part) { return part.in_redis == in_redis; });
    }

    Task<Settled> settle_redis(std::int64_t cost) {
        const store::Settlement settlement{reserved_.reservation, reserved_.nonce, cost,
                                           remembered_for_};
        const std::optional<std::int64_t> settled = co_await store::settle_in_redis(
            *limiter_.redis(), settlement, x_.config(), x_.client->sleeper().wakeup());
        // Redis may have given units back even if no answer came.
        for (const store::Reservation::Part& part : reserved_.reservation.parts) {
            for (const auto& item : part.items) limiter_.note_freed(item.identifier);
        }
        if (!settled) co_return Settled{State::no_redis};
        co_return Settled{State::settled, *settled};
    }

    Task<Settled> settle_here(std::int64_t cost) {
        using Claim = store::SettledIds::Claim;
        store::SettledIds& ids = face_.reservations.settled;
        const auto now = std::chrono::steady_clock::now();
        const Claim claim = ids.claim(reserved_.nonce, cost, now, now + remembered_for_);
        if (claim.state == Claim::State::full) co_return Settled{State::full};
        if (claim.state == Claim::State::settling) co_return Settled{State::settling};
        if (claim.state == Claim::State::settled) co_return Settled{State::settled, claim.cost};
        if (!co_await correct_here(cost)) {
            // The next settlement may count some of the units a second time, but misses none.
            ids.forget(reserved_.nonce);
            co_return Settled{State::uncounted};
        }
        ids.settled(reserved_.nonce);
        co_return Settled{State::settled, cost};
    }

    // False: more was spent than reserved, and no store has counted it.
    Task<bool> correct_here(std::int64_t cost) {
        const store::Reservation& reservation = reserved_.reservation;
        bool is_counted = true;
        for (const store::Reservation::Part& part : reservation.parts) {
            if (part.in_redis) continue;
            if (cost < reservation.cost) {
                give_back(part, reservation.cost - cost);
            } else if (cost > reservation.cost) {
                is_counted = co_await take_more(part, cost - reservation.cost) && is_counted;
            }
        }
        co_return is_counted;
    }

    void give_back(const store::Reservation::Part& part, std::int64_t units) const {
        const store::Reservation& reservation = reserved_.reservation;
        const store::ReservedItems reserved =
            store::items_to_give_back(part, reservation.cost, x_.config());
        if (reserved.items.empty()) return;
        limiter_.give_back_in_process({reserved.items, units, {}, reservation.moment},
                                      reserved.receipt);
    }

    // Counts what was spent, also above the quota: in Redis, if Redis is back.
    Task<bool> take_more(const store::Reservation::Part& part, std::int64_t units) {
        const store::ReservedItems counted = store::items_to_take(part, x_.config());
        if (counted.items.empty()) co_return true;
        store::LimitDecision more;
        more.items = counted.items;
        more.cost = units;
        more.moment = reserved_.reservation.moment;
        more.is_alone = true;
        Wakeup& wakeup = x_.client->sleeper().wakeup();
        limiter_.decide(more, wakeup);
        while (more.result == store::LimitDecision::Result::pending) co_await wakeup.wait();
        co_return more.result != store::LimitDecision::Result::unavailable;
    }

    const CheckFace& face_;
    proxy::Exchange& x_;
    store::Limiter& limiter_;
    const SealedReservation& reserved_;
    milliseconds remembered_for_;
};

// Settles with `cost` what has not expired for `left`.
Task<Settled> settle_reservation(const CheckFace& face, proxy::Exchange& exchange,
                                 const SealedReservation& reserved, std::int64_t cost,
                                 milliseconds left) {
    Settling settling(face, exchange, reserved, left);
    co_return co_await settling.run(cost);
}

using ask::Fault;
using proxy::Exchange;
using proxy::FaultAnswer;

constexpr std::string_view kJsonType = "application/json";

enum class CheckPath : std::uint8_t { check, reserve, settle, other };

CheckPath path_of(std::string_view path) {
    if (path == "/v1/check") return CheckPath::check;
    if (path == "/v1/reserve") return CheckPath::reserve;
    return path == "/v1/settle" ? CheckPath::settle : CheckPath::other;
}

// One call on its way: its request and its answer.
class CheckServing {
  public:
    CheckServing(const CheckFace& face, Exchange& exchange) : face_(face), x_(exchange) {}

    Task<> run() {
        if (const Fault fault = fault_of_peer(); fault != Fault::none) {
            x_.decision.refuse(fault);
            co_return;
        }
        const CheckPath path = path_of(x_.facts.head.path);
        if (path == CheckPath::other) {
            co_return refuse(404, "There is POST /v1/check, /v1/reserve and /v1/settle.");
        }
        if (x_.facts.head.method != "POST") {
            refuse(405, "Write POST.");
            answer_->more_fields = "Allow: POST\r\n";
            co_return;
        }
        const Fault fault = co_await proxy::read_body(x_, kCheckBytesMax, &body_);
        if (fault != Fault::none) {
            x_.decision.refuse(fault);
        } else if (path == CheckPath::settle) {
            co_await settle();
        } else {
            co_await ask(path == CheckPath::reserve);
        }
    }

    // Set if the call was answered by this; else the fault of the decision is the answer.
    std::optional<FaultAnswer>& answer() { return answer_; }

  private:
    Fault fault_of_peer() const {
        const http::Fields& fields = x_.facts.head.fields;
        if (!face_.listen.admits(x_.facts.peer.address)) return Fault::peer_not_admitted;
        if (!face_.listen.token.empty()) {
            return http::bears_token(fields, face_.listen.token) ? Fault::none : Fault::bad_token;
        }
        // Without a token, a page in a browser of this machine must not ask.
        const bool is_page = std::any_of(fields.begin(), fields.end(), [](const http::Field& one) {
            return http::equal_ignoring_case(one.name, "origin");
        });
        return is_page ? Fault::peer_not_admitted : Fault::none;
    }

    void refuse(int status, std::string_view detail, Fault fault = Fault::bad_call) {
        answer_.emplace();
        answer_->is_to_head = x_.facts.head.method == "HEAD";
        answer_->status = status;
        answer_->body = problem_text(status, detail, x_.facts.request_id);
        x_.decision.charge.items.clear();  // not charged
        x_.decision.refuse(fault);
    }

    void answer_with(int status, std::string body) {
        answer_.emplace();
        answer_->status = status;
        answer_->content_type = kJsonType;
        answer_->body = std::move(body);
        if (x_.decision.fault == Fault::limited &&
            x_.config().response.limit_fields.has(http::LimitFields::retry_after)) {
            answer_->retry_after = ask::retry_after_seconds(x_.decision.charge);
        }
        constexpr int kUnavailable = 503;
        if (status == kUnavailable) answer_->retry_after = 1;
    }

    ask::Question question(const ask::Facts& facts, ask::Decision& decision) const {
        ask::Question made = proxy::question_of(x_);
        return {made.rules, facts, decision, made.wakeup, made.has_left, made.client};
    }

    ask::Engine& engine() const { return face_.worker.engine; }

    // Charges the store for the listed items. False: the caller awaits engine().finish_charge().
    bool charge(const ask::Question& question) {
        return question.decision.charge.items.empty() || engine().charge(question);
    }

    // Counts a decision that is not the exchange's own, which proxy::finish() records.
    void note_activity(const ask::Decision& decision) const {
        telemetry::Activity::Names* const names = face_.worker.activity.names();
        if (names == nullptr) return;
        proxy::note_activity(*names, *x_.generation, decision, x_.facts.request_id,
                             std::chrono::steady_clock::now());
    }

    // Lists the charges of the item, which is a request. A sentence names its fault.
    Task<std::string> list_request_item(const CheckItem& item, CheckQuestion& asked,
                                        ask::Decision& decision) {
        make_request_question(item, x_.config(), asked, decision);
        if (!decision.goes_on()) co_return std::string();
        ask::Question to_engine = question(asked.facts, decision);
        to_engine.only_lists = true;
        if (!engine().begin(to_engine)) co_await engine().finish(to_engine);
        if (!decision.goes_on()) co_return std::string();
        co_return finish_request_item(item, decision);
    }

    Task<> ask(bool reserves) {
        const auto call = read_check_call(body_, reserves);
        if (!call) co_return refuse(400, call.error());
        if (call->form == CheckCall::Form::each) {
            co_await ask_each(*call);
        } else {
            co_await ask_together(*call, reserves);
        }
    }

    // Each item by itself: the answer names the refused ones, and the others go on.
    Task<> ask_each(const CheckCall& call) {
        constexpr std::size_t kMore = 32;  // bytes by which an answer is longer than the first
        std::string text = R"({"each":)";
        CheckQuestion asked;
        ask::Decision decision;
        char before = '[';
        for (const CheckItem& item : call.items) {
            asked.reset();
            decision.reset();
            std::string fault;
            if (item.policy.empty()) {
                fault = co_await list_request_item(item, asked, decision);
            } else {
                fault = list_policy_item(item, x_.config(), asked, decision);
            }
            text += before;
            before = ',';
            if (!fault.empty()) {
                append_each_fault(fault, text);
                continue;
            }
            if (decision.goes_on()) {
                const ask::Question to_store = question(asked.facts, decision);
                if (!charge(to_store)) co_await engine().finish_charge(to_store);
                note_activity(decision);
            }
            append_each_answer(*x_.generation, decision, text);
            // Once: the others are about as long as the first.
            if (&item == &call.items.front())
                text.reserve((text.size() + kMore) * call.items.size());
        }
        text += "]}\n";
        answer_with(200, std::move(text));
    }

    // All or nothing, in one charge.
    Task<> ask_together(const CheckCall& call, bool reserves) {
        for (std::size_t i = 0; i < call.items.size(); ++i) {
            const CheckItem& item = call.items[i];
            const std::string place =
                call.form == CheckCall::Form::all ? "all[" + std::to_string(i) + "]: " : "";
            CheckQuestion& asked = *asked_.emplace_back(std::make_unique<CheckQuestion>());
            ask::Decision& listed = *listed_.emplace_back(std::make_unique<ask::Decision>());
            std::string fault;
            if (item.policy.empty()) {
                fault = co_await list_request_item(item, asked, listed);
            } else {
                fault = list_policy_item(item, x_.config(), asked, listed);
            }
            if (!fault.empty()) co_return refuse(400, place + fault);
            if (!listed.goes_on()) {
                x_.decision.charge.items.clear();
                x_.decision.refuse(listed.fault);
                co_return answer_with(status_of(listed), answer_text(listed));
            }
            const std::string why = add_to_charge(listed.charge, x_.decision.charge);
            if (!why.empty()) {
                co_return refuse(400, place + why);
            }
        }
        x_.decision.charge.is_alone = reserves;
        const ask::Question to_store = question(x_.facts, x_.decision);
        if (!charge(to_store)) co_await engine().finish_charge(to_store);
        const bool has_reserved = reserves && x_.decision.goes_on();
        answer_with(status_of(x_.decision),
                    answer_text(x_.decision, has_reserved ? reservation(call.ttl) : ""));
    }

    // With `more` members after those of the answer.
    std::string answer_text(const ask::Decision& decision, std::string_view more = {}) const {
        std::string text = "{";
        append_answer(*x_.generation, decision, text);
        text += more;
        text += "}\n";
        return text;
    }

    // The members that say how it is settled.
    std::string reservation(std::chrono::seconds ttl) const {
        SealedReservation content;
        if (!x_.decision.charge.items.empty()) {
            content.reservation = store::reservation_of(x_.decision.charge);
        }
        content.process = face_.reservations.process;
        content.expires = std::chrono::system_clock::now() + ttl;
        std::string text = R"(,"id":")" + face_.reservations.seal.seal(content) + R"(","expires":)";
        append_number(
            std::chrono::duration_cast<milliseconds>(content.expires.time_since_epoch()).count(),
            text);
        return text;
    }

    Task<> settle() {
        const auto call = read_settle_call(body_);
        if (!call) co_return refuse(400, call.error());
        const auto opened = face_.reservations.seal.open(call->id);
        if (!opened) co_return refuse(400, "id: no Tidegate with this `check.secret` gave it");
        const auto left = std::chrono::duration_cast<milliseconds>(
            opened->expires - std::chrono::system_clock::now());
        if (left.count() <= 0) {
            co_return refuse(410,
                             "The reservation has expired: unless a settle arrived before, what "
                             "was reserved stays taken.");
        }
        const Settled settled = co_await settle_reservation(face_, x_, *opened, call->cost, left);
        answer_settled(settled, call->cost);
    }

    void answer_settled(const Settled& settled, std::int64_t cost) {
        switch (settled.state) {
            case Settled::State::settled:
                if (settled.cost == cost) {
                    return answer_with(200,
                                       R"({"settled":true,"cost":)" + std::to_string(cost) + "}\n");
                }
                refuse(409, "");
                answer_->body = settled_problem_text(settled.cost, x_.facts.request_id);
                return;
            case Settled::State::no_redis:
                return ask_again("Redis does not answer.");
            case Settled::State::uncounted:
                return ask_again("What was spent could not be counted.");
            case Settled::State::settling:
                return ask_again("Another call is settling the reservation.");
            case Settled::State::full:
                return ask_again("Too many reservations are being settled.");
            case Settled::State::elsewhere:
                return refuse(400, "id: another Tidegate gave it, which counts in its own memory");
            case Settled::State::in_redis:
                return refuse(400,
                              "id: it was counted in Redis, and this Tidegate counts in its own "
                              "memory");
        }
    }

    void ask_again(std::string_view why) {
        refuse(503, std::string(why) + " Send the same settle again: its cost is counted once.",
               Fault::store_unavailable);
        answer_->retry_after = 1;
    }

    const CheckFace& face_;
    Exchange& x_;
    std::string body_;
    std::optional<FaultAnswer> answer_;
    // The data that x_.decision points into, until it is recorded.
    std::vector<std::unique_ptr<CheckQuestion>> asked_;
    std::vector<std::unique_ptr<ask::Decision>> listed_;
};

}  // namespace

Task<> serve_check(void* self, client::Stream& client) {
    const CheckFace& face = *static_cast<CheckFace*>(self);
    std::unique_ptr<Exchange> exchange = face.worker.exchanges.take();
    Exchange& x = *exchange;
    x.client = &client;
    x.face = Face::check;
    proxy::begin(face.worker, x);
    CheckServing serving(face, x);
    if (x.decision.goes_on()) proxy::check_framing(x);
    if (x.decision.goes_on()) co_await serving.run();
    if (serving.answer()) {
        co_await proxy::send_answer(face.worker, x, std::move(*serving.answer()));
    } else if (ask::traits(x.decision.fault).status != 0) {
        co_await proxy::send_answer(face.worker, x, proxy::make_fault_answer(x));
    }
    proxy::finish(face.worker, std::move(exchange));
}

}  // namespace tidegate::faces
