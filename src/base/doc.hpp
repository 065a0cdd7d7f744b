// A Doc is an answer of a command or of the admin listener: a tree for programs, and facts, tables
// and lines for people. The function that finds something out adds it to both at one place; two
// writers make JSON and text of them. Lines and facts never command a terminal; cells of a table
// are escaped_text().
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/units.hpp"

namespace tidegate {

class Doc {
  public:
    using Json = nlohmann::ordered_json;
    using Row = std::vector<std::string>;

    struct Column {
        std::string_view heading;
        std::size_t width = 0;   // 0: as wide as the widest cell
        bool is_number = false;  // its cells end at the right
    };

    explicit Doc(JsonStyle style = {.ascii = true}) : style_(style) {}

    Json json = Json::object();
    int exit_code = 0;  // what a command that shows this ends with

    // Each adds to the text, below what is there already.
    void line(std::string_view text);
    // Facts that follow each other are aligned: `what  value  why`.
    void fact(std::string_view what, std::string value, std::string why = {});
    // A heading, and a line for each row. The cell of the last column is as long as it is.
    void table(std::span<const Column> columns, const std::vector<Row>& rows,
               std::string_view indent = {});
    void append_text(const Doc& other);

    // Each line ends with a line feed.
    std::string text() const;
    std::string json_text() const { return tidegate::json_text(json, style_) + "\n"; }

  private:
    struct Fact {
        std::string_view what;
        std::string value;
        std::string why;
    };

    void end_facts();
    std::string aligned_facts() const;

    JsonStyle style_;
    std::string text_;
    std::vector<Fact> facts_;  // behind text_
};

// Null for what is not there.
Doc::Json optional_text(std::string_view text);

// A number: units, or dollars with the decimals they have.
Doc::Json amount_json(Amount amount);

// `1 limit`, `2 limits`.
std::string counted(std::size_t count, std::string_view one);

// The first names, `most` of them: `a, b, c and 4 more`.
std::string shown_names(std::span<const std::string> names, std::size_t most);

// Text of a client within a line of text: quotes and what misleads a display are escaped.
std::string escaped_text(std::string_view text);

// A line of a table, with the line feed. `row` has a cell for each column; widths are those of the
// columns.
std::string table_line(std::span<const Doc::Column> columns, const Doc::Row& row);

}  // namespace tidegate
