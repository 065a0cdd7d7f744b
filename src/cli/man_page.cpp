#include "cli/man_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tidegate::cli {

namespace {

constexpr std::string_view kManAbout =
    R"(.SH DESCRIPTION
Tidegate stands in front of an HTTP API and limits how much each client may ask.
It forwards what the limits admit, and answers the rest with 429.
Counts are kept in memory, or in Redis where several proxies share them.
)";

constexpr std::string_view kManEnd =
    R"(.SH SIGNALS
.TP
\fBTERM\fR, \fBINT\fR
The proxy stops accepting connections, lets requests in flight finish, and ends.
A second one ends it at once.
.TP
\fBHUP\fR
The proxy reads its configuration again.
If the new one has a fault, the old one stays in force.
.TP
\fBUSR1\fR
The proxy opens its access log again.
.TP
\fBUSR2\fR
The proxy starts its program again.
The new process takes over listening sockets and counts; the former one lets requests in flight
finish, and ends.
.SH FILES
.TP
\fItidegate.yaml\fR
The configuration, in the current folder, if the command line names none.
.SH EXIT STATUS
0 on success, 1 if the proxy could not start or the configuration has a fault, 2 if the command
line is wrong.
Commands with other codes say so above.
.SH SEE ALSO
The configuration, the algorithms and the operation of Tidegate are described in the documents of
its package, and in its repository.
)";

void append_roff(char c, std::string& out) {
    switch (c) {
        case '\\':
            out += "\\e";
            break;
        case '-':
            out += "\\-";
            break;
        case '\'':
            out += "\\(aq";
            break;
        case '^':
            out += "\\(ha";
            break;
        case '~':
            out += "\\(ti";
            break;
        case '`':
            out += "\\(ga";
            break;
        default:
            out += c;
    }
}

// A line that begins so would be a command.
std::string_view guard_of(std::string_view line) {
    return line.starts_with('.') || line.starts_with('\'') ? "\\&" : "";
}

std::string roff_example(std::string_view line) {
    std::string out(guard_of(line));
    for (const char c : line) append_roff(c, out);
    return out;
}

// The text below the options of `--help`: paragraphs, and lines that are indented as they are.
std::string roff_footer(std::string_view footer) {
    std::string out;
    bool in_example = false;
    bool in_paragraph = false;
    const auto end_example = [&] {
        if (in_example) out += ".EE\n.RE\n";
        in_example = false;
    };
    while (!footer.empty()) {
        const std::string_view line = footer.substr(0, footer.find('\n'));
        footer.remove_prefix(std::min(line.size() + 1, footer.size()));
        if (line.starts_with("  ")) {
            if (!in_example) out += ".PP\n.RS 4\n.EX\n";
            in_example = true;
            in_paragraph = false;
            out += roff_example(line.substr(2)) + "\n";
            continue;
        }
        end_example();
        if (line.empty()) {
            in_paragraph = false;
            continue;
        }
        if (!in_paragraph) out += ".PP\n";
        in_paragraph = true;
        out += roff_text(line) + "\n";
    }
    end_example();
    return out;
}

std::string roff_synopsis(const ListedCommand& command) {
    std::string text = ".B tidegate " + roff_text(command.name) + "\n[\\fIOPTIONS\\fR]";
    for (const ListedArgument& argument : command.arguments) {
        const std::string name = "\\fI" + roff_text(argument.value.name) + "\\fR";
        text += argument.is_required ? " " + name : " [" + name + "]";
    }
    return text + "\n";
}

std::string roff_option(const ListedOption& option) {
    std::string names;
    for (const std::string& name : option.names) {
        names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff_example(name));
    }
    if (!option.value.name.empty()) names += " \\fI" + roff_example(option.value.name) + "\\fR";
    return fmt::format(".TP\n{}\n{}\n", names, roff_text(option.what));
}

std::string roff_command(const ListedCommand& command) {
    std::string text =
        fmt::format(".SS tidegate {}\n{}", roff_text(command.name), roff_synopsis(command));
    text += ".PP\n" + roff_text(command.what) + ".\n";
    for (const ListedOption& option : command.options) {
        if (option.names.back() != "--help") text += roff_option(option);
    }
    return text + roff_footer(command.footer);
}

}  // namespace

std::string roff_text(std::string_view text) {
    std::string out(guard_of(text));
    bool is_bold = false;
    for (const char c : text) {
        if (c != '`') {
            append_roff(c, out);
            continue;
        }
        is_bold = !is_bold;
        out += is_bold ? "\\fB" : "\\fR";
    }
    return is_bold ? out + "\\fR" : out;
}

std::string man_page(const std::vector<ListedCommand>& commands, std::string_view version) {
    std::string page = fmt::format(
        ".\\\" Made by `tidegate man`.\n"
        ".TH TIDEGATE 1 \"\" \"tidegate {}\" \"User Commands\"\n"
        ".SH NAME\ntidegate \\- rate\\-limiting reverse proxy\n.SH SYNOPSIS\n",
        version);
    std::string described;
    for (const ListedCommand& command : commands) {
        if (command.name.empty() || !command.inner.empty()) continue;
        page += roff_synopsis(command) + ".br\n";
        described += roff_command(command);
    }
    page += kManAbout;
    page += ".PP\nEach command has the option \\fB\\-h\\fR, \\fB\\-\\-help\\fR.\n.SH COMMANDS\n";
    page += described;
    return page.append(kManEnd);
}

}  // namespace tidegate::cli
