# Compiles the files of all rooms together, in a few large units: headers and templates are then
# compiled once a unit and not once a file, and a cold build takes a fraction of the time. The
# optimised program is built so; the other builds compile file by file, so that a change compiles
# little, and so that a room sees only the rooms it may see.
#
# A file that uses a name for one thing never shares a unit with a file of its namespace that gives
# the name to another thing of its own, in an anonymous namespace or as an alias, such as `now()`.
# Otherwise the compiler would refuse a second definition or, worse, call the function of the other
# file where that one fits better.

# Bytes of source in a unit: some ten units, none of which needs much more than a GiB to compile.
set(TIDEGATE_UNIT_BYTES 110000)

# The text of the anonymous namespaces, and the aliases of the file.
function(tidegate_own_declarations text result)
    string(REGEX MATCHALL "\n(using|namespace) [A-Za-z_]+ =" aliases "${text}")
    list(JOIN aliases "" own)
    string(FIND "${text}" "\nnamespace {\n" begin)
    while(NOT begin EQUAL -1)
        math(EXPR begin "${begin} + 12")
        string(SUBSTRING "${text}" ${begin} -1 text)
        string(FIND "${text}" "\n}  // namespace\n" end)
        string(SUBSTRING "${text}" 0 ${end} part)
        string(APPEND own "\n${part}")
        string(FIND "${text}" "\nnamespace {\n" begin)
    endwhile()
    set(${result} "${own}" PARENT_SCOPE)
endfunction()

# The names that the declarations give: those of column 0.
function(tidegate_names_of declarations result)
    # Each line that begins with a letter, up to where its name ends. Text in raw strings has no such
    # end.
    string(REGEX MATCHALL "\n[A-Za-z_][^\n({=]*[({=]" lines "${declarations}")
    set(names "")
    foreach(line IN LISTS lines)
        if(NOT line MATCHES "^\n(template|static_assert|using [a-z_]+::)")
            string(REGEX REPLACE "( final)? : .*| final *.$|.$" "" line "${line}")
            string(STRIP "${line}" line)
            string(REGEX MATCH "[A-Za-z_0-9]+$" name "${line}")
            list(APPEND names ${name})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES names)
    set(${result} "${names}" PARENT_SCOPE)
endfunction()

# Whether the text uses one of the names, other than as a member of something.
function(tidegate_uses text names result)
    list(JOIN names "|" any)
    if(NOT any STREQUAL "" AND text MATCHES "[^A-Za-z_0-9:.>](${any})[^A-Za-z_0-9]")
        set(${result} TRUE PARENT_SCOPE)
    else()
        set(${result} FALSE PARENT_SCOPE)
    endif()
endfunction()

# The namespace that the text is in, as `cli`; `tidegate` for one that all others are in.
function(tidegate_namespace_of text result)
    set(${result} tidegate PARENT_SCOPE)
    if(text MATCHES "\nnamespace tidegate::([a-z_]+)")
        set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
    endif()
endfunction()

# The types and aliases that the text declares at column 0.
function(tidegate_types_of text result)
    string(REGEX MATCHALL "\nusing [A-Za-z_0-9]+ =|\n(class|struct|enum class|enum) [A-Za-z_0-9]+"
        types "${text}")
    list(TRANSFORM types REPLACE " =$" "")
    list(TRANSFORM types REPLACE ".* " "")
    set(${result} "${types}" PARENT_SCOPE)
endfunction()

# The types and aliases that the headers of all namespaces declare at column 0, in
# types_NAMESPACE; those of `tidegate` are in each list.
macro(tidegate_read_headers)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.hpp)
    foreach(header IN LISTS headers)
        file(READ ${header} text)
        string(REGEX REPLACE "[][;]" " " text "\n${text}")
        tidegate_namespace_of("${text}" namespace)
        tidegate_types_of("${text}" found)
        list(APPEND types_${namespace} ${found})
    endforeach()
endmacro()

# Whether the text, which gives these names to things of its own, cannot share a unit with what the
# caller has in it of one namespace.
macro(tidegate_meets unit namespace result)
    tidegate_uses("${text}" "${names_${unit}_${namespace}}" ${result})
    if(NOT ${result})
        tidegate_uses("${text_${unit}_${namespace}}" "${names}" ${result})
    endif()
endmacro()

# Puts each source of the target into the first unit that has room for it and that it can share.
function(tidegate_compile_together target)
    tidegate_read_headers()
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
        file(READ ${source} text)
        # CMake would take these for the marks of a list. A declaration that ends is as good as one
        # with a value.
        string(REGEX REPLACE "[][]" " " text "\n${text}")
        string(REPLACE ";" "=" text "${text}")
        tidegate_own_declarations("${text}" own)
        tidegate_names_of("${own}" names)
        tidegate_namespace_of("${text}" namespace)
        tidegate_types_of("${own}" types)
        set(others ${types})
        list(REMOVE_ITEM others "" ${types_${namespace}} ${types_tidegate})
        if(NOT "${others}" STREQUAL "${types}")
            set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
            continue()
        endif()
        string(REGEX REPLACE "//[^\n]*|\"[^\"\n]*\"" "" text "${text}")
        string(LENGTH "${text}" bytes)
        set(unit 0)
        set(fits FALSE)
        while(NOT fits)
            math(EXPR unit "${unit} + 1")
            if(NOT DEFINED bytes_${unit})
                set(bytes_${unit} 0)
            endif()
            math(EXPR together "${bytes_${unit}} + ${bytes}")
            if(together GREATER TIDEGATE_UNIT_BYTES AND bytes_${unit} GREATER 0)
                continue()
            endif()
            if(namespace STREQUAL "tidegate")
                tidegate_meets(${unit} all meets)
            else()
                tidegate_meets(${unit} ${namespace} meets)
                if(NOT meets)
                    tidegate_meets(${unit} tidegate meets)
                endif()
            endif()
            if(NOT meets)
                set(fits TRUE)
            endif()
        endwhile()
        set(bytes_${unit} ${together})
        # Every namespace sees the names of `tidegate`, so these are compared with all of them.
        foreach(place IN ITEMS ${namespace} all)
            list(APPEND names_${unit}_${place} ${names})
            string(APPEND text_${unit}_${place} "${text}")
        endforeach()
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
    endforeach()
    # A file's unit follows from what the file says.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    # To the compiler all of these files are headers. The builds that compile file by file have these
    # warnings.
    target_compile_options(${target} PRIVATE -Wno-shadow
        $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    # GCC bounds how much a unit grows by inlining. A unit as large as these reaches the bound before
    # GCC has inlined the path of a request, which then takes 6 to 11 % more instructions (callgrind).
    target_compile_options(${target} PRIVATE
        "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param inline-unit-growth=1000>")
endfunction()
