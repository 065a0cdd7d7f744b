// A conversation with one Redis or one sentinel, a question at a time. One thread.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "config/config.hpp"
#include "doctor/answer.hpp"
#include "doctor/finding.hpp"
#include "doctor/patience.hpp"
#include "doctor/wire.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::doctor {

// Who is talked to, and as whom.
struct Station {
    config::Address address;
    std::string username;
    std::string password;
    std::shared_ptr<const TlsClient> tls;  // null: not encrypted
    // For advice: where its address is configured (`store.redis.url`), and what is spoken to.
    std::string_view section;
    std::string_view kind;  // `redis`, `sentinel`

    std::string name() const;  // `redis 10.0.0.1:6379`
    // What to do about a server that wants a client certificate.
    std::string certificate_advice() const;
};

class RedisTalk {
  public:
    explicit RedisTalk(const Patience& patience) : patience_(patience) {}

    // Looks the name up, connects to each of its addresses, shakes hands and says the password.
    // What came of it is in `findings`; true when questions may be asked. No address is left out,
    // so that one which is dead is found while another still answers.
    bool open(const Station& station, Findings& findings);

    // One command and its answer. Where there is none, because the server is silent or gone, it is
    // an error that says so in parentheses; no question is asked any more from then on.
    Answer ask(std::initializer_list<std::string_view> words);
    Answer ask_resp(std::string_view command);
    bool is_lost() const { return !lost_.empty(); }
    // Why: a clause.
    const std::string& why_lost() const { return lost_; }

    const Patience& patience() const { return patience_; }

  private:
    // Of no use when `fault` says why.
    std::unique_ptr<Wire> open_wire(const Station& station,
                                    const StreamProtocol::endpoint& endpoint, std::string& fault);
    bool say_password(const Station& station, Findings& findings);
    bool greet(const Station& station, Findings& findings);

    Patience patience_;
    std::unique_ptr<Wire> wire_;
    AnswerReader reader_;
    std::string lost_;
};

}  // namespace tidegate::doctor
