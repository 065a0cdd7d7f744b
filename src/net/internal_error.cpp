#include "net/internal_error.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tidegate {

namespace {

void tell_on_standard_error(std::string_view why) noexcept {
    std::fprintf(stderr, "tidegate: %.*s\n", static_cast<int>(why.size()), why.data());
}

std::atomic<TellEnd> tell_end{tell_on_standard_error};

const char* file_name(const boost::source_location& from) {
    const char* const slash = std::strrchr(from.file_name(), '/');
    return slash != nullptr ? slash + 1 : from.file_name();
}

}  // namespace

std::string words_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "an exception of an unknown kind";
    }
}

void set_tell_end(TellEnd tell) {
    tell_end = tell;
}

// In a buffer of its own: there may be no memory left.
void end_program(const std::exception_ptr& failure, const boost::source_location& from) noexcept {
    std::array<char, 512> text{};
    const auto describe = [&](const char* what) {
        std::snprintf(
            text.data(), text.size(),
            "internal error: the task begun in %s:%u ended with: %s. The program stops, as "
            "it cannot run without this task",
            file_name(from), static_cast<unsigned>(from.line()), what);
    };
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        describe(error.what());
    } catch (...) {
        describe("an exception of an unknown kind");
    }
    tell_end.load()(text.data());
    std::abort();
}

}  // namespace tidegate
