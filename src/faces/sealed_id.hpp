// The id of a reservation: what was taken where, sealed, so that who holds it can neither read nor
// change it and no server has to remember it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/reservation.hpp"

namespace tidegate::faces {

struct SealedReservation {
    store::Reservation reservation;
    std::string process;  // that gave it
    std::string nonce;    // of this id alone, 32 hexadecimal digits
    std::chrono::system_clock::time_point expires;
};

// AES-256-GCM under a key that is made of a secret. Immutable; any thread.
class IdSeal {
  public:
    // Of those who share `secret`, each can open what another has sealed.
    explicit IdSeal(std::string_view secret);

    // In base64url. Draws the nonce. Throws std::runtime_error if OpenSSL cannot.
    std::string seal(SealedReservation& content) const;
    // Nothing: the id was not sealed with this secret, or it was changed.
    std::optional<SealedReservation> open(std::string_view id) const;

  private:
    std::string key_;
};

}  // namespace tidegate::faces
