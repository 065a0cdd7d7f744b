#include "cli/explain_words.hpp"

#include <fmt/format.h>

#include "base/units.hpp"

namespace tidegate::cli {

using ask::ChargeNotes;

Words words_of(identity::Hop::Kind kind) {
    using Kind = identity::Hop::Kind;
    switch (kind) {
        case Kind::trusted:
            return {"trusted", "trusted: the entry before it counts"};
        case Kind::client:
            return {"client", "not trusted: the entries before it do not count"};
        case Kind::unreadable:
            return {"unreadable", "not an address: the chain ends here"};
        case Kind::unspecified:
            return {"nobody", "not a client's address: the chain ends here"};
    }
    return {};
}

Words words_of(Explanation::Method::Outcome outcome) {
    using Outcome = Explanation::Method::Outcome;
    switch (outcome) {
        case Outcome::absent:
            return {"absent", "absent"};
        case Outcome::disbelieved:
            return {"disbelieved", "ignored: the peer is not trusted"};
        case Outcome::valid:
            return {"valid", "valid"};
        case Outcome::refused:
            return {"refused", "refused"};
        case Outcome::ambiguous:
            return {"ambiguous", "refused: the request has more than one"};
        case Outcome::unavailable:
            return {"unavailable", "cannot be checked: there are no keys"};
        case Outcome::not_tried:
            return {"not_tried", "not tried: an earlier method decided"};
    }
    return {};
}

Words words_of(routing::Mismatch mismatch) {
    using routing::Mismatch;
    switch (mismatch) {
        case Mismatch::none:
            return {"none", "takes it"};
        case Mismatch::path:
            return {"path", "the path does not match"};
        case Mismatch::host:
            return {"host", "the path matches; the host does not"};
        case Mismatch::method:
            return {"method", "the path matches; the method does not"};
        case Mismatch::headers:
            return {"headers", "the path matches; the headers do not"};
    }
    return {};
}

Words words_of(ChargeNotes::Outcome outcome) {
    using Outcome = ChargeNotes::Outcome;
    switch (outcome) {
        case Outcome::counted:
            return {"counted", "counts it"};
        case Outcome::exempt:
            return {"exempt", "does not count it: `exempt` names the client"};
        case Outcome::unlimited:
            return {"unlimited", "does not count it: the tier is unlimited"};
        case Outcome::denied:
            return {"denied", "refuses it: `deny` names the client"};
        case Outcome::skipped:
            return {"skipped",
                    "does not count it: the request has no value to count by, and the policy has "
                    "`on_missing: skip`"};
        case Outcome::no_identifier:
            return {"nobody", "cannot count it: the request has no value to count by"};
        case Outcome::no_user:
            return {"no_user",
                    "cannot count it: the policy needs a user, and the request has none"};
        case Outcome::unclear:
            return {"unclear",
                    "cannot count it: a value to count by can be read in more than one way"};
    }
    return {};
}

Words words_of(ChargeNotes::KeyOutcome outcome) {
    using Outcome = ChargeNotes::KeyOutcome;
    switch (outcome) {
        case Outcome::counted:
            return {"counted", "found"};
        case Outcome::skipped:
            return {"skipped", "missing: skipped"};
        case Outcome::shared:
            return {"shared", "missing: counted with all requests that lack it"};
        case Outcome::rejected:
            return {"rejected", "missing, and required"};
        case Outcome::unclear:
            return {"unclear", "can be read in more than one way"};
    }
    return {};
}

namespace {

std::string window_of(const limit::Limit& limit) {
    switch (limit.anchor) {
        case limit::Anchor::utc_day:
            return "a day of UTC";
        case limit::Anchor::utc_week:
            return "a week of UTC, from Monday on";
        case limit::Anchor::utc_month:
            return "a month of UTC";
        case limit::Anchor::day:
            return "a day of " + limit.time_zone;
        case limit::Anchor::week:
            return "a week of " + limit.time_zone + ", from Monday on";
        case limit::Anchor::month:
            return "a month of " + limit.time_zone;
        default:
            return format_duration(limit.duration);
    }
}

}  // namespace

std::string described(const limit::Limit& limit) {
    std::string text = limit.is_concurrency()
                           ? fmt::format("{} at once", limit.quota)
                           : fmt::format("{} in {}", limit.quota, window_of(limit));
    text += fmt::format(", {}", limit.traits().name);
    if (limit.is_bucket()) text += fmt::format(", burst {}", limit.burst);
    if (limit.strict) text += ", strict";
    if (limit.count == limit::Count::all) text += ", counts refused requests too";
    if (limit.count == limit::Count::by_status) {
        std::vector<std::string> statuses;
        for (const std::uint16_t one : limit.statuses) statuses.push_back(limit::status_text(one));
        text += fmt::format(", counts answers with {}", fmt::join(statuses, ", "));
    }
    return text;
}

}  // namespace tidegate::cli
