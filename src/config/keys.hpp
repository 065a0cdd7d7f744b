// The keys of a section as rows. The reader, its messages, the JSON Schema, the reference and a
// test read what they know of a key from its row. CONTRIBUTING.md says how to add one.
//
// The first use of a section makes its rows, which never change then. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/value.hpp"

namespace tidegate::config {

class KeyRows;
struct Declared;

// Says what a value may be.
struct KeyKind {
    std::string schema;              // as JSON Schema; kHere stands for the section below
    std::string range{};             // the column "Range" of the reference; may be empty
    const KeyRows* below = nullptr;  // the keys of a value that is a map, or of its items
    std::string steps{};             // behind the key's name in the paths of these: `[]`, `.NAME`
    // Values as they are written, for the test that each kind takes its bounds and no more.
    std::vector<std::string> takes{};
    std::vector<std::string> refuses{};
    bool is_secret = false;  // nothing shows what is written there, nor below
    bool is_url = false;     // or a path with a query: nothing shows a user part or a query
    static constexpr char kHere = '\x01';
};

namespace kind {

struct ItemCount {
    std::size_t min = 0;
    std::size_t max = 0;  // 0: no bound
};

// Takes a JSON Schema as it is, for values that no other kind describes.
KeyKind written(std::string_view schema);
// A type that keys.cpp defines for the schema, such as `rate`.
KeyKind type(std::string_view name);
// Is the kind that Value::secret() reads.
KeyKind secret();
// The same kind, of URLs or of paths with a query. Types whose name ends with `_url` are such.
KeyKind url(KeyKind kind);
KeyKind toggle();
KeyKind integer(IntegerRange range);
// A number from 0 to 1.
KeyKind fraction();
KeyKind duration(DurationRange range);
// A size in bytes.
KeyKind size(IntegerRange range);
// One of these words, or a variable of the environment.
KeyKind word(const std::vector<std::string_view>& words);
// One of these words. The caller adds type("variable") where a variable may stand.
KeyKind fixed(const std::vector<std::string_view>& words);
KeyKind map(const KeyRows& keys);
// A value may have any of these kinds.
KeyKind any(std::initializer_list<KeyKind> kinds);
KeyKind off_or(const KeyKind& kind);
KeyKind list(const KeyKind& item, ItemCount count = {});
// A list of such items, or one of them without a list.
KeyKind one_or_more(const KeyKind& item, ItemCount count = {});
// A map whose keys are names that the user chooses.
KeyKind named(const KeyKind& value, ItemCount count = {});

}  // namespace kind

// Holds the words of the reference about a key, in Markdown. The schema has it without the marks.
struct KeyText {
    std::string_view what;
    // The columns "Default" and "Range". Empty: the row's member and kind say it.
    std::string_view unset{};
    std::string_view range{};
};

// When a reload of the configuration changes what a key says.
enum class Live : std::uint8_t {
    next_request,              // or whatever Tidegate does next
    next_connection,           // those that are open go on with the former value
    next_connection_of_http2,  // in HTTP/1 the next request
    restart,
};

// Compares two configurations, to say what a reload would change; `workers` run, and `next` asks
// for `workers_next`.
struct ConfigChange {
    const Config& running;
    const Config& next;
    std::size_t workers = 1;
    std::size_t workers_next = 1;
};

// Says what only a restart can change, as `threads` "cannot change"; empty: nothing does.
using RestartReason = std::string (*)(const ConfigChange&);

// A key has no effect unless the configuration has something else.
struct IdleRule {
    std::function<bool(const Config&, const Declared&)> has_effect;
    std::string why;             // ends the warning: "no listener has `tls`"
    bool warns_for_all = false;  // one warning for all keys without effect that have this rule
};

// A section's rows, in the order in which messages and the reference list them.
class KeyRows {
  public:
    struct Row {
        std::string_view key;
        KeyKind kind;
        std::string what;
        std::string unset;
        std::string range;
        std::string_view needed;     // required: what to write, as the message says; else empty
        std::optional<Live> live{};  // unset: as the row of the section says
        RestartReason restart = nullptr;
        std::optional<IdleRule> idle{};
    };

    // `wanted` ends the message about a value that is no map. `name`: of a section that occurs in
    // several places, which the schema defines once.
    explicit KeyRows(std::string_view wanted = "a map", std::string_view name = {})
        : wanted_(wanted), name_(name) {}

    std::string_view name() const { return name_; }
    std::string_view wanted() const { return wanted_; }
    const std::vector<Row>& rows() const { return rows_; }
    const Row* find(std::string_view key) const;
    // The section has exactly one of the keys, as an item of `identity.user` has.
    bool is_choice() const { return is_choice_; }

  protected:
    void add(std::string_view key, KeyKind&& kind, const KeyText& text, std::string&& unset);

    std::string_view wanted_;
    std::string_view name_;
    std::vector<Row> rows_;
    bool is_choice_ = false;
};

// These functions add rules to the last row.
template <class Self>
class RowRules : public KeyRows {
  public:
    using KeyRows::KeyRows;

    void append(std::string_view key, KeyKind kind, const KeyText& text) {
        this->add(key, std::move(kind), text, {});
    }
    // A key that the code behind the section reads.
    Self&& key(std::string_view key, KeyKind kind, const KeyText& text) && {
        append(key, std::move(kind), text);
        return std::move(self());
    }
    // Every such section has the key; `hint` says what to write.
    Self&& required(std::string_view hint) && {
        rows_.back().needed = hint;
        return std::move(self());
    }
    // The value may be secret: `/api/config` blanks it.
    Self&& secret() && {
        rows_.back().kind.is_secret = true;
        return std::move(self());
    }
    // Says when a change of the last row takes effect; so do the keys below it that say nothing.
    Self&& live(Live when) && {
        rows_.back().live = when;
        return std::move(self());
    }
    // A reload is refused that changes what `reason` looks at.
    Self&& restart(RestartReason reason) && {
        rows_.back().live = Live::restart;
        rows_.back().restart = reason;
        return std::move(self());
    }
    // `check` warns that the key has no effect, and says why, unless `has_effect` is true of the
    // configuration.
    Self&& idle_unless(bool (*has_effect)(const Config&), std::string why) && {
        rows_.back().idle = IdleRule{
            [has_effect](const Config& config, const Declared&) { return has_effect(config); },
            std::move(why)};
        return std::move(self());
    }
    Self&& idle(const IdleRule& rule) && {
        rows_.back().idle = rule;
        return std::move(self());
    }

  private:
    Self& self() { return static_cast<Self&>(*this); }
};

// The rows of a section that code reads key by key, because most of its keys have grammars of their
// own.
class Rows : public RowRules<Rows> {
  public:
    using RowRules::RowRules;

    // Such a section has exactly one of the keys.
    Rows&& one_of_them() && {
        is_choice_ = true;
        return std::move(*this);
    }
};

// How the reference shows the value of a member whose key is not written.
std::string shown_default(bool value);
std::string shown_default(milliseconds value);
std::string shown_default(double fraction);
std::string shown_size(std::uint64_t bytes);

// The rows of a section whose values are members of T, which a default constructor makes. Each row
// reads its key into a member, or calls its own reader.
template <class T>
class Keys : public RowRules<Keys<T>> {
  public:
    template <class E>
    using Words = std::vector<std::pair<std::string_view, E>>;
    using Reader = std::function<void(const Value&, T&)>;

    using RowRules<Keys<T>>::RowRules;

    Keys&& toggle(std::string_view key, bool T::*member, const KeyText& text) && {
        return std::move(*this).row(
            key, kind::toggle(), text, shown_default(T{}.*member),
            [](const Value& value) { return value.toggle(); }, member);
    }
    template <class N>
    Keys&& integer(std::string_view key, N T::*member, IntegerRange range, const KeyText& text) && {
        return std::move(*this).row(
            key, kind::integer(range), text, "`" + std::to_string(T{}.*member) + "`",
            [range](const Value& value) { return value.integer(range); }, member);
    }
    template <class D>
    Keys&& duration(std::string_view key, D T::*member, DurationRange range,
                    const KeyText& text) && {
        return std::move(*this).row(
            key, kind::duration(range), text,
            shown_default(std::chrono::duration_cast<milliseconds>(T{}.*member)),
            [range](const Value& value) -> std::optional<D> {
                const auto time = value.duration(range);
                if (!time) return std::nullopt;
                return std::chrono::duration_cast<D>(*time);
            },
            member);
    }
    // `off` is 0.
    Keys&& duration_or_off(std::string_view key, milliseconds T::*member, DurationRange range,
                           const KeyText& text) && {
        return std::move(*this).row(
            key, kind::off_or(kind::duration(range)), text,
            (T{}.*member).count() == 0 ? "`off`" : shown_default(T{}.*member),
            [range](const Value& value) {
                return value.is_off() ? milliseconds{0} : value.duration(range, true);
            },
            member);
    }
    template <class N>
    Keys&& size(std::string_view key, N T::*member, IntegerRange range, const KeyText& text) && {
        return std::move(*this).row(
            key, kind::size(range), text, shown_size(T{}.*member),
            [range](const Value& value) { return value.size(range); }, member);
    }
    Keys&& size_or_unlimited(std::string_view key, std::uint64_t T::*member, std::int64_t min,
                             const KeyText& text) && {
        const IntegerRange range{min, std::numeric_limits<std::int64_t>::max()};
        return std::move(*this).row(
            key, kind::type("size"), text, {},
            [range](const Value& value) { return value.size(range, true); }, member);
    }
    Keys&& fraction(std::string_view key, double T::*member, const KeyText& text) && {
        return std::move(*this).row(
            key, kind::fraction(), text, shown_default(T{}.*member),
            [](const Value& value) { return value.fraction(); }, member);
    }
    template <class E>
    Keys&& word(std::string_view key, E T::*member, Words<E> words, const KeyText& text) && {
        std::vector<std::string_view> names;
        std::string unset;
        for (const auto& [name, value] : words) {
            names.push_back(name);
            if (value == T{}.*member && unset.empty()) unset = "`" + std::string(name) + "`";
        }
        return std::move(*this).row(
            key, kind::word(names), text, std::move(unset),
            [words = std::move(words)](const Value& value) { return value.choice<E>(words); },
            member);
    }
    // Adds a key whose map fills a member.
    template <class U>
    Keys&& section(std::string_view key, U T::*member, const Keys<U>& keys,
                   const KeyText& text) && {
        return std::move(*this).own(
            key, kind::map(keys),
            [member, &keys](const Value& value, T& out) { keys.read(value, out.*member); }, text);
    }
    // Adds a key that `read` reads by a grammar of its own.
    Keys&& own(std::string_view key, KeyKind kind, Reader read, const KeyText& text) && {
        this->append(key, std::move(kind), text);
        readers_.resize(this->rows_.size());
        readers_.back() = std::move(read);
        return std::move(*this);
    }

    // Reads all rows and refuses other keys. A row with a member leaves it as it is if the key is
    // missing or broken; a reader decides that itself. The caller then judges how the values fit
    // together.
    Section read(const Value& value, T& out) const {
        Section section(value, *this);
        read(section, out);
        return section;
    }
    // The same where the caller has judged some keys before.
    void read(Section& section, T& out) const {
        for (std::size_t i = 0; i < readers_.size(); ++i) {
            const KeyRows::Row& row = this->rows_[i];
            if (!readers_[i]) continue;
            const auto found = row.needed.empty() ? section.find(row.key) : section.need(row.key);
            if (found) readers_[i](*found, out);
        }
        section.refuse_others();
    }

  private:
    template <class M, class Read>
    Keys&& row(std::string_view key, KeyKind&& kind, const KeyText& text, std::string&& unset,
               Read read, M T::*member) && {
        this->add(key, std::move(kind), text, std::move(unset));
        readers_.resize(this->rows_.size());
        readers_.back() = [read = std::move(read), member](const Value& value, T& out) {
            if (const auto found = read(value)) out.*member = static_cast<M>(*found);
        };
        return std::move(*this);
    }

    std::vector<Reader> readers_;  // of rows_, which may have more; empty: none
};

// The functions below say what all rows of keys say together: the JSON Schema of a configuration,
// the tables of docs/configuration.md, and what a reload cannot change. Any thread.

// JSON Schema 2020-12, ends with a line end.
std::string schema_text();

// A table in Markdown of the keys at these places, each with those below it in their order:
// `timeouts` or `listen[].tls`. `response.cors.*`: only those below it. `identity.user[].`: the
// same, and their paths begin there. Keys of sections that occur in several places (`policy`) are
// only shown where such a place is asked for. Empty: no key is at one of the places.
std::string key_table(std::span<const std::string> places);

// A message for each key that `change` changes and that only a restart can change.
std::vector<std::string> needs_restart(const ConfigChange& change);

}  // namespace tidegate::config
