// The metrics of a room as Prometheus reads them.
#pragma once

#include <initializer_list>
#include <sstream>
#include <string>

#include "telemetry/metric.hpp"

namespace tidegate::test {

// Of several threads; `names` are those that the room's labels are made of.
template <class Metrics, class... Names>
std::string text_of(std::initializer_list<const Metrics*> threads, const Names&... names) {
    telemetry::Exposition out;
    Metrics::write(out, {threads.begin(), threads.size()}, names...);
    return out.text();
}

template <class Metrics, class... Names>
std::string text_of(const Metrics& metrics, const Names&... names) {
    return text_of({&metrics}, names...);
}

// Whether `text` has this line.
inline bool has_line(const std::string& text, const std::string& line) {
    return text.starts_with(line + "\n") || text.find("\n" + line + "\n") != std::string::npos;
}

// The value of the sample with exactly this name and these labels, or "absent".
inline std::string sample(const std::string& text, const std::string& name_and_labels) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(name_and_labels + " ")) return line.substr(name_and_labels.size() + 1);
    }
    return "absent";
}

}  // namespace tidegate::test
