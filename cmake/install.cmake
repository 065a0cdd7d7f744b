# What `cmake --install` installs, in the layout of the Debian package. The program itself makes the
# manual page and the completions while it is installed, so they are always its own.
include(GNUInstallDirs)

set(example ${CMAKE_INSTALL_DOCDIR}/examples)
set(made ${CMAKE_BINARY_DIR}/made)

install(TARGETS tidegate RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(CODE "
    set(made \"${made}\")
    file(MAKE_DIRECTORY \"\${made}\")
    # FILE is what `tidegate ARGUMENTS` prints.
    function(tidegate_make file)
        execute_process(COMMAND \"$<TARGET_FILE:tidegate>\" \${ARGN}
            OUTPUT_FILE \"\${made}/\${file}\" COMMAND_ERROR_IS_FATAL ANY)
    endfunction()
    tidegate_make(tidegate.1 man)
    tidegate_make(tidegate completion bash)
    tidegate_make(_tidegate completion zsh)
    tidegate_make(tidegate.fish completion fish)")
install(FILES ${made}/tidegate.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${made}/tidegate DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${made}/_tidegate DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${made}/tidegate.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

install(FILES ${PROJECT_SOURCE_DIR}/config/tidegate.schema.json
    DESTINATION ${CMAKE_INSTALL_DATADIR}/tidegate)
install(FILES ${PROJECT_SOURCE_DIR}/deploy/prometheus/alerts.yaml
    DESTINATION ${CMAKE_INSTALL_DATADIR}/tidegate/prometheus)
install(FILES ${PROJECT_SOURCE_DIR}/deploy/grafana/tidegate.json
    DESTINATION ${CMAKE_INSTALL_DATADIR}/tidegate/grafana)
# Only this machine reaches it, until its administrator changes it.
install(FILES ${PROJECT_SOURCE_DIR}/config/packaged.yaml
    DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/tidegate RENAME tidegate.yaml)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
    ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
    FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/config/ DESTINATION ${example}
    PATTERN packaged.yaml EXCLUDE)
