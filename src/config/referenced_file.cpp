#include "config/referenced_file.hpp"

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/quote.hpp"

namespace tidegate::config {

namespace {

namespace fs = std::filesystem;

// Not more than one byte beyond what a file may have.
std::optional<std::string> content_of(const std::string& path, std::size_t bytes_max) {
    std::error_code ec;
    // Whatever else opens may never end.
    if (!fs::is_regular_file(path, ec)) return std::nullopt;
    std::ifstream file(path, std::ios::binary);
    std::string text(bytes_max + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file.is_open() || file.bad()) return std::nullopt;
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

}  // namespace

std::optional<ReferencedFile> read_referenced_file(const Value& value, std::string_view example,
                                                   std::size_t bytes_max) {
    const auto path = value.text("the path of a file such as `" + std::string(example) + "`");
    if (!path) return std::nullopt;
    ReferencedFile file;
    file.path = value.context().resolve(*path);
    auto text = content_of(file.path, bytes_max);
    if (!text) {
        value.fault("the file " + quote(*path) + " cannot be read");
        return std::nullopt;
    }
    if (text->size() > bytes_max) {
        value.fault("the file " + quote(*path) + " is larger than " +
                    std::to_string(bytes_max / kFileBytesMax) + " MiB");
        return std::nullopt;
    }
    file.text = std::move(*text);
    return file;
}

void warn_if_world_writable(const Value& value, const ReferencedFile& file) {
    std::error_code ec;
    const fs::perms perms = fs::status(file.path, ec).permissions();
    if (ec || (perms & fs::perms::others_write) == fs::perms::none) return;
    value.warn("every user of this machine may write to " + quote(file.path) +
               " and so become any user: remove the permission (`chmod o-w`)");
}

Context context_of(const ReferencedFile& file, const Context& outer) {
    Context context;
    context.file = file.path;
    context.folder = outer.folder;
    context.environment = outer.environment;
    return context;
}

void report_faults(Context&& inner, Context& outer) {
    for (Fault& fault : inner.faults) {
        outer.other_errors.push_back(
            {inner.file, fault.place.line, fault.place.column, std::move(fault.message)});
    }
    inner.faults.clear();
}

}  // namespace tidegate::config
