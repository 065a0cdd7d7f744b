#include "http/date_field.hpp"

#include "base/timestamp.hpp"

namespace tidegate::http {

void DateField::set(std::chrono::system_clock::time_point now) {
    const auto second = std::chrono::floor<std::chrono::seconds>(now);
    if (second == second_) return;
    second_ = second;
    line_ = "Date: ";
    append_http_date(second, line_);
    line_ += "\r\n";
}

}  // namespace tidegate::http
