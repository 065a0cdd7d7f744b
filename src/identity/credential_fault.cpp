#include "identity/credential_fault.hpp"

namespace tidegate::identity {

std::string_view to_string(CredentialFault fault) {
    switch (fault) {
        case CredentialFault::none:
            return "";
        case CredentialFault::malformed:
            return "credential: malformed";
        case CredentialFault::unsafe_user:
            return "credential: unusable user name";
        case CredentialFault::unclear_cookie:
            return "cookie: unclear";
        case CredentialFault::foreign_space:
            return "credential: user of another method's namespace";
        case CredentialFault::not_json:
            return "token: not strict JSON";
        case CredentialFault::critical_extension:
            return "token: critical extension";
        case CredentialFault::token_type:
            return "token: of another type";
        case CredentialFault::algorithm:
            return "token: algorithm not allowed";
        case CredentialFault::unknown_key:
            return "token: no such key";
        case CredentialFault::signature:
            return "token: wrong signature";
        case CredentialFault::expired:
            return "token: expired";
        case CredentialFault::not_yet_valid:
            return "token: not valid yet";
        case CredentialFault::time_claim:
            return "token: bad time claim";
        case CredentialFault::issuer:
            return "token: wrong issuer";
        case CredentialFault::audience:
            return "token: wrong audience";
        case CredentialFault::user_claim:
            return "token: no user";
        case CredentialFault::unknown_secret:
            return "key: unknown";
        case CredentialFault::wrong_password:
            return "password: wrong";
        case CredentialFault::certificate_name:
            return "certificate: not exactly one name that fits";
    }
    return "";
}

bool is_guess(CredentialFault fault) {
    switch (fault) {
        case CredentialFault::malformed:
        case CredentialFault::not_json:
        case CredentialFault::critical_extension:
        case CredentialFault::algorithm:
        case CredentialFault::token_type:
        case CredentialFault::signature:
        case CredentialFault::unknown_secret:
        case CredentialFault::wrong_password:
            return true;
        default:
            return false;
    }
}

bool is_proved_by_signature(CredentialFault fault) {
    switch (fault) {
        case CredentialFault::unsafe_user:
        case CredentialFault::foreign_space:
        case CredentialFault::expired:
        case CredentialFault::not_yet_valid:
        case CredentialFault::time_claim:
        case CredentialFault::issuer:
        case CredentialFault::audience:
        case CredentialFault::user_claim:
            return true;
        default:
            return false;
    }
}

}  // namespace tidegate::identity
