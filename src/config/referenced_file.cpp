#include "config/referenced_file.hpp"

#include <filesystem>
#include <utility>

#include "base/file_work.hpp"
#include "base/utf8.hpp"
#include "config/file_text.hpp"

namespace tidegate::config {

namespace {

namespace fs = std::filesystem;

}  // namespace

std::optional<ReferencedFile> read_referenced_file(const Value& value, std::string_view example,
                                                   std::size_t bytes_max) {
    const auto path = value.text("the path of a file such as `" + std::string(example) + "`");
    if (!path) return std::nullopt;
    ReferencedFile file;
    file.path = value.context().resolve(*path, value.place());
    auto content = read_file_text(file.path, bytes_max, FileKind::no_device);
    note_file(file.path, content ? std::optional<std::string_view>(content->text) : std::nullopt,
              value.context().files_read);
    if (!content) {
        value.fault("the file " + quote(*path) + " cannot be read: " + content.error());
        return std::nullopt;
    }
    if (content->is_larger) {
        value.fault("the file " + quote(*path) + " is larger than " +
                    std::to_string(bytes_max / kFileBytesMax) + " MiB");
        return std::nullopt;
    }
    file.text = std::move(content->text);
    return file;
}

void warn_if_world_writable(const Value& value, const ReferencedFile& file) {
    std::error_code ec;
    const FileWait wait(file.path);
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
