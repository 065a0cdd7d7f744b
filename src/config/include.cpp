// `include`: which files belong to the configuration, and how they become part of its document.
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_work.hpp"
#include "base/utf8.hpp"
#include "config/config.hpp"
#include "config/files.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFilesMax = 1'000;
constexpr std::string_view kAllowed = "`upstreams`, `policies` and `routes`";

bool is_same_file(const std::string& path, const std::string& other) {
    std::error_code ec;
    const FileWait wait(path);
    return fs::equivalent(path, other, ec);
}

TreeEntry* entry_of(TreeNode& map, std::string_view key) {
    for (TreeEntry& entry : map.entries) {
        if (entry.key == key) return &entry;
    }
    return nullptr;
}

// Collects the files of all patterns.
class IncludeReader {
  public:
    explicit IncludeReader(Context& context) : context_(context) {}

    void read_pattern(const Value& value) {
        const auto text = value.text("a pattern such as `conf.d/*.yaml`");
        if (!text) return;
        const std::string pattern = context_.resolve(*text);
        const std::vector<std::string> matches = files_that_match(pattern);
        note_pattern(pattern, matches, context_.files_read);
        if (matches.empty()) return report_nothing(value, *text, pattern);
        for (const std::string& path : matches) read_file(value, path);
    }

    std::vector<IncludedFile> take() {
        std::sort(files_.begin(), files_.end(),
                  [](const IncludedFile& a, const IncludedFile& b) { return a.path < b.path; });
        return std::move(files_);
    }

  private:
    // A folder may be empty; but one that is not there, or a file, is rather misspelt. glob() takes
    // one that it may not read for an empty one.
    static void report_nothing(const Value& value, const std::string& text,
                               const std::string& pattern) {
        std::error_code ec;
        const fs::path folder = fs::path(pattern).parent_path();
        if (text.find_first_of("*?[") == text.npos) {
            return value.fault("there is no file " + quote(text));
        }
        const bool is_pattern = folder.string().find_first_of("*?[") != std::string::npos;
        if (folder.empty() || is_pattern) return;
        const std::string shown = quote(fs::path(text).parent_path().string());
        const FileWait wait(folder.string());
        if (!fs::is_directory(folder, ec)) {
            value.fault("there is no folder " + shown + ": create it, or correct the path");
        } else if (::access(folder.c_str(), R_OK) != 0) {
            value.fault("the folder " + shown +
                        " cannot be read: " + std::generic_category().message(errno));
        }
    }

    void read_file(const Value& value, const std::string& path) {
        const auto same = [&](const IncludedFile& other) { return other.path == path; };
        if (std::any_of(files_.begin(), files_.end(), same)) return;
        if (is_same_file(path, context_.file)) {
            return value.fault("this names " + quote(path) +
                               ", the file itself: put included files in a folder of their own, "
                               "such as `conf.d/*.yaml`");
        }
        if (files_.size() == kFilesMax) {
            return value.fault("more than " + std::to_string(kFilesMax) + " files");
        }
        auto file = read_file_text(path, kFileBytesMax, FileKind::no_device);
        if (!file) {
            note_file(path, std::nullopt, context_.files_read);
            return value.fault("the file " + quote(path) + " cannot be read: " + file.error());
        }
        note_file(path, file->text, context_.files_read);
        bytes_ += file->text.size();
        if (file->is_larger)
            return value.fault("the file " + quote(path) + " is larger than 1 MiB");
        if (bytes_ > kListBytesMax) return value.fault("the files together are larger than 16 MiB");
        files_.push_back({path, std::move(file->text)});
    }

    Context& context_;
    std::vector<IncludedFile> files_;
    std::size_t bytes_ = 0;
};

void set_file(TreeNode& node, int file) {
    node.place.file = file;
    for (TreeNode& item : node.items) set_file(item, file);
    for (TreeEntry& entry : node.entries) {
        entry.place.file = file;
        set_file(entry.value, file);
    }
}

// Puts what files have into one document.
class Merger {
  public:
    Merger(TreeNode& document, Context& context) : document_(document), context_(context) {}

    void add(const IncludedFile& included) {
        context_.included.push_back(included.path);
        const int file = static_cast<int>(context_.included.size());
        std::vector<ConfigFault> faults;
        TreeNode part = parse_document(included.text, faults);
        set_file(part, file);
        for (ConfigFault& fault : faults) {
            fault.place.file = file;
            context_.faults.push_back(std::move(fault));
        }
        if (part.kind == TreeNode::Kind::null) return;
        if (part.kind != TreeNode::Kind::map) {
            return value_of(part, "").wrong_kind("a map of " + std::string(kAllowed));
        }
        for (TreeEntry& entry : part.entries) add(std::move(entry));
    }

    // Last: the routes of all files come before those of the document.
    void finish() {
        if (routes_.empty()) return;
        TreeEntry& whole = *entry_of(document_, "routes");
        std::vector<TreeNode>& items = whole.value.items;
        items.insert(items.begin(), std::make_move_iterator(routes_.begin()),
                     std::make_move_iterator(routes_.end()));
    }

  private:
    Value value_of(const TreeNode& node, const std::string& name) {
        return {context_, node, name, node.place};
    }

    void add(TreeEntry&& entry) {
        if (entry.key == "upstreams" || entry.key == "policies") {
            add_named(std::move(entry));
        } else if (entry.key == "routes") {
            add_routes(std::move(entry));
        } else if (entry.key == "include") {
            context_.faults.push_back(
                {entry.place,
                 "an included file includes no other: list the file in " + quote(context_.file)});
        } else {
            context_.faults.push_back(
                {entry.place, quote(entry.key) + " cannot be in an included file: write it in " +
                                  quote(context_.file) +
                                  ". Allowed here: " + std::string(kAllowed)});
        }
    }

    // The document's own value of that key, of the same type. Null: it is of another type, which
    // its reader reports.
    TreeNode* counterpart(const TreeEntry& entry) {
        TreeEntry* const own = entry_of(document_, entry.key);
        if (own != nullptr) return own->value.kind == entry.value.kind ? &own->value : nullptr;
        TreeNode empty;
        empty.kind = entry.value.kind;
        empty.place = entry.value.place;
        document_.entries.push_back({entry.key, entry.place, std::move(empty)});
        return &document_.entries.back().value;
    }

    void add_named(TreeEntry&& entry) {
        if (entry.value.kind != TreeNode::Kind::map) {
            return value_of(entry.value, entry.key).wrong_kind("a map of " + entry.key);
        }
        TreeNode* const whole = counterpart(entry);
        if (whole == nullptr) return;
        for (TreeEntry& named : entry.value.entries) {
            const TreeEntry* const same = entry_of(*whole, named.key);
            if (same == nullptr) {
                whole->entries.push_back(std::move(named));
                continue;
            }
            context_.faults.push_back({named.place, entry.key + "." + named.key + ": " +
                                                        context_.shown(same->place) +
                                                        " has this name already: choose another"});
        }
    }

    void add_routes(TreeEntry&& entry) {
        if (entry.value.kind != TreeNode::Kind::sequence) {
            return value_of(entry.value, entry.key).wrong_kind("a list of routes");
        }
        if (counterpart(entry) == nullptr) return;
        routes_.insert(routes_.end(), std::make_move_iterator(entry.value.items.begin()),
                       std::make_move_iterator(entry.value.items.end()));
    }

    TreeNode& document_;
    Context& context_;
    std::vector<TreeNode> routes_;
};

}  // namespace

std::vector<IncludedFile> read_included(const TreeNode& document, Context& context) {
    constexpr ListRule kPatterns{"a pattern such as `conf.d/*.yaml`, or a list of these",
                                 "patterns", 64};
    IncludeReader reader(context);
    for (const TreeEntry& entry : document.entries) {
        if (entry.key != "include") continue;
        const Value value(context, entry.value, entry.key, entry.value.place);
        for (const Value& item : value.one_or_more(kPatterns)) reader.read_pattern(item);
    }
    return reader.take();
}

void merge_included(const std::vector<IncludedFile>& files, TreeNode& document, Context& context) {
    Merger merger(document, context);
    for (const IncludedFile& file : files) merger.add(file);
    merger.finish();
}

}  // namespace tidegate::config
