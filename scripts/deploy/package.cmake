# What `cmake --install` installs, and Debian's package by `cpack -G DEB`. Components: `program`;
# `plain`, where Debian wants another place or form; `debian`, that form. The package has the first
# and the last, an ordinary installation the first two.
include(GNUInstallDirs)
set(examples ${CMAKE_INSTALL_DOCDIR}/examples)
set(pages ${PROJECT_BINARY_DIR}/pages)

install(TARGETS starling RUNTIME COMPONENT program)
if(STARLING_HAS_CUDA)  # where cuda/module_loader.h says, whatever libraries' folder is usual
  install(TARGETS starling_cuda_module LIBRARY DESTINATION lib/starling COMPONENT program)
endif()
install(FILES ${pages}/starling.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${pages}/starling DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  COMPONENT program)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY configs DESTINATION ${examples} COMPONENT program)
install(DIRECTORY scripts/deploy DESTINATION ${examples} COMPONENT program
  USE_SOURCE_PERMISSIONS
  PATTERN debian EXCLUDE PATTERN package.cmake EXCLUDE
  PATTERN *.service EXCLUDE PATTERN *.sysusers EXCLUDE PATTERN *.tmpfiles EXCLUDE)
# systemd looks below lib, not below the library folder of the machine's kind.
install(FILES scripts/deploy/systemd/starling.service DESTINATION lib/systemd/system
  COMPONENT program)
install(FILES scripts/deploy/systemd/starling.sysusers DESTINATION lib/sysusers.d
  RENAME starling.conf COMPONENT program)
install(FILES scripts/deploy/systemd/starling.tmpfiles DESTINATION lib/tmpfiles.d
  RENAME starling.conf COMPONENT program)

install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT plain)
install(FILES ${pages}/_starling DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
  COMPONENT plain)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT debian
  EXCLUDE_FROM_ALL)
set(changelog "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}/changelog.gz")
install(CODE "execute_process(COMMAND gzip -9nc \"${PROJECT_SOURCE_DIR}/CHANGELOG.md\"
  OUTPUT_FILE \"${changelog}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${pages}/_starling DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
  COMPONENT debian EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME starling)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train one language model on many unequal machines")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "\
Each machine runs one peer, which trains at its own speed and, in the
background, averages parts of its model with random other peers over the
internet. There is no coordinator, a fast peer never waits for a slow one,
and any peer may die. Commands prepare texts and tokenizers, watch a swarm,
and evaluate, merge, import and export models.")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Starling developers <starling@example.org>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # what the binary links, by dpkg-shlibdeps
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/scripts/deploy/debian/postinst
  ${PROJECT_SOURCE_DIR}/scripts/deploy/debian/postrm
  ${PROJECT_SOURCE_DIR}/scripts/deploy/debian/prerm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_CMAKE_PROJECTS
  "${PROJECT_BINARY_DIR};starling;program;/;${PROJECT_BINARY_DIR};starling;debian;/")
include(CPack)
