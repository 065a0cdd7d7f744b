// What the build gave the program against memory errors, as its ELF file says (elf(5)).
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "integration/process.hpp"

namespace tidegate::test::hardening_test {

namespace {

// A 64-bit ELF file of this machine's byte order.
class ElfFile {
  public:
    explicit ElfFile(const std::string& path) {
        // At once: one with debugging information has a hundred million bytes.
        bytes_.resize(std::filesystem::file_size(path));
        std::ifstream file(path, std::ios::binary);
        file.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
        REQUIRE_MESSAGE(bytes_.starts_with(ELFMAG), path);
        header_ = at<Elf64_Ehdr>(0);
        for (std::size_t i = 0; i < header_.e_phnum; ++i) {
            segments_.push_back(at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr)));
        }
    }

    const Elf64_Ehdr& header() const { return header_; }

    std::optional<Elf64_Phdr> segment(Elf64_Word type) const {
        for (const Elf64_Phdr& segment : segments_) {
            if (segment.p_type == type) return segment;
        }
        return std::nullopt;
    }

    // 0: the dynamic section has no such entry.
    Elf64_Xword dynamic(Elf64_Sxword tag) const {
        const auto section = segment(PT_DYNAMIC);
        REQUIRE(section);
        for (std::size_t at_byte = 0; at_byte < section->p_filesz; at_byte += sizeof(Elf64_Dyn)) {
            const auto entry = at<Elf64_Dyn>(section->p_offset + at_byte);
            if (entry.d_tag == tag) return entry.d_un.d_val;
        }
        return 0;
    }

    // The features of the processor that the program is marked for: GNU_PROPERTY_X86_FEATURE_1_*.
    std::uint32_t processor_features() const {
        for (const Elf64_Phdr& segment : segments_) {
            if (segment.p_type != PT_NOTE) continue;
            const std::size_t end = segment.p_offset + segment.p_filesz;
            for (std::size_t place = segment.p_offset; place < end;) {
                const auto note = at<Elf64_Nhdr>(place);
                const std::size_t properties = place + sizeof note + rounded(note.n_namesz, 4);
                if (note.n_type == NT_GNU_PROPERTY_TYPE_0) {
                    return processor_features(properties, properties + note.n_descsz);
                }
                place = properties + rounded(note.n_descsz, segment.p_align);
            }
        }
        return 0;
    }

    bool holds(std::string_view text) const { return bytes_.find(text) != std::string::npos; }

  private:
    static std::size_t rounded(std::size_t size, std::size_t to) {
        return (size + to - 1) / to * to;
    }

    std::uint32_t processor_features(std::size_t place, std::size_t end) const {
        while (place < end) {
            const auto type = at<std::uint32_t>(place);
            const auto size = at<std::uint32_t>(place + 4);
            if (type == GNU_PROPERTY_X86_FEATURE_1_AND) return at<std::uint32_t>(place + 8);
            place += 8 + rounded(size, 8);
        }
        return 0;
    }

    template <class Value>
    Value at(std::size_t offset) const {
        REQUIRE(offset + sizeof(Value) <= bytes_.size());
        Value value;
        std::memcpy(&value, bytes_.data() + offset, sizeof value);
        return value;
    }

    std::string bytes_;
    Elf64_Ehdr header_{};
    std::vector<Elf64_Phdr> segments_;
};

}  // namespace

TEST_CASE("hardening: the program loads at a random address, with tables that stay read-only") {
    const ElfFile elf(program());
    CHECK(elf.header().e_type == ET_DYN);
    CHECK((elf.dynamic(DT_FLAGS_1) & DF_1_PIE) != 0);
    CHECK(elf.segment(PT_GNU_RELRO).has_value());
    // Without it the table of functions stays writable: lazily bound ones are filled in late.
    CHECK((elf.dynamic(DT_FLAGS_1) & DF_1_NOW) != 0);
}

TEST_CASE("hardening: the stack holds no code, and a guard before each return address") {
    const ElfFile elf(program());
    const auto stack = elf.segment(PT_GNU_STACK);
    REQUIRE(stack);
    CHECK((stack->p_flags & PF_X) == 0);
    CHECK(elf.holds("__stack_chk_fail"));
}

#ifdef __x86_64__
TEST_CASE("hardening: the processor may watch where returns and indirect jumps go") {
    const ElfFile elf(program());
    const auto wanted = GNU_PROPERTY_X86_FEATURE_1_IBT | GNU_PROPERTY_X86_FEATURE_1_SHSTK;
    CHECK((elf.processor_features() & wanted) == wanted);
}
#endif

TEST_CASE("hardening: containers check their indices") {
    CHECK(ElfFile(program()).holds("glibcxx_assert_fail"));
}

// Only an optimised program has them, which is the one that is named to the tests; they would hide
// errors from the sanitizers.
TEST_CASE("hardening: the C library checks the sizes of buffers" *
          doctest::skip(sanitized() || std::getenv("TIDEGATE_PROGRAM") == nullptr)) {
    CHECK(ElfFile(program()).holds("__memcpy_chk"));
}

}  // namespace tidegate::test::hardening_test
