# Compiles the files of a room together: headers and templates are then compiled once a unit and not
# once a file, and a cold build takes a fraction of the time. The optimised program is built so; the
# other builds compile file by file, so that a change compiles little.
#
# A file that uses a name for one thing never shares a unit with a file that gives the name to
# another thing of its own, in an anonymous namespace or as an alias, such as `now()`. Otherwise the
# compiler would refuse a second definition or, worse, call the function of the other file where that
# one fits better.

# What stands in the anonymous namespaces of the text, and its aliases.
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
    # Each line that begins with a letter, up to where its name ends.
    string(REGEX MATCHALL "\n[A-Za-z_][^\n({=]*" lines "${declarations}")
    set(names "")
    foreach(line IN LISTS lines)
        if(NOT line MATCHES "^\n(template|static_assert|using [a-z_]+::)")
            string(REGEX REPLACE "( final)? : .*| final *$" "" line "${line}")
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

# Puts each source of the target into the first unit that it can share.
function(tidegate_compile_together target)
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
        file(READ ${source} text)
        # CMake would take these for the marks of a list.
        string(REGEX REPLACE "[][;]" " " text "\n${text}")
        tidegate_own_declarations("${text}" own)
        tidegate_names_of("${own}" names)
        string(REGEX REPLACE "//[^\n]*|\"[^\"\n]*\"" "" text "${text}")
        set(unit 0)
        set(meets TRUE)
        while(meets)
            math(EXPR unit "${unit} + 1")
            tidegate_uses("${text}" "${names_${unit}}" meets)
            if(NOT meets)
                tidegate_uses("${text_${unit}}" "${names}" meets)
            endif()
        endwhile()
        list(APPEND names_${unit} ${names})
        string(APPEND text_${unit} "${text}")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
    endforeach()
    # A file's unit follows from what the file says.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    # To the compiler all of these files are headers. The builds that compile file by file have these
    # warnings.
    target_compile_options(${target} PRIVATE -Wno-shadow
        $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
