# The rules of the house are tests like any other, and so are the tests of the rules.
set(TIDY_PYTHON /usr/bin/env python3)
add_test(NAME "tidy: the tree keeps the rules of the house"
  COMMAND ${TIDY_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/tidy.py)
add_test(NAME "tidy: every rule finds a seeded violation"
  COMMAND ${TIDY_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/tidy_test.py)
set_tests_properties(
  "tidy: the tree keeps the rules of the house" "tidy: every rule finds a seeded violation"
  PROPERTIES LABELS unit TIMEOUT 240 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

add_test(NAME "tidy: every header compiles alone"
  COMMAND ${TIDY_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/tidy.py --headers)
set_tests_properties("tidy: every header compiles alone"
  PROPERTIES LABELS slow TIMEOUT 900 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
