# Run at build time: writes the parts of the status page as C++ to OUT.
#   cmake -DFOLDER=... -DOUT=... -P embed_page.cmake
set(text "// Made by embed_page.cmake.\n")
string(APPEND text
  "#include \"peer/status/status_page_parts.h\"\n\nnamespace starling::peer {\n\n")
foreach(part "kPageHtml page.html" "kPageStyle page.css" "kPageScript page.js")
  separate_arguments(part)
  list(GET part 0 name)
  list(GET part 1 file)
  file(READ ${FOLDER}/${file} content)
  string(APPEND text "const std::string_view ${name} = R\"~part~(${content})~part~\";\n")
endforeach()
string(APPEND text "\n}  // namespace starling::peer\n")
file(WRITE ${OUT} "${text}")
