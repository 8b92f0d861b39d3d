# The launcher, the commands on checkpoints and the binary.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(libuv REQUIRED IMPORTED_TARGET libuv)

# Of its own, because the peer writes these lines and the launcher reads them; with it, what shows
# them to browsers.
add_library(starling_peer_status STATIC
  prometheus_text.cpp status.cpp status_routes.cpp status_server.cpp)
target_link_libraries(starling_peer_status
  PUBLIC starling_base nlohmann_json::nlohmann_json
  PRIVATE Boost::headers Threads::Threads)
target_link_libraries(starling_peer PUBLIC starling_peer_status)

# cli.cpp is the only file that includes CLI11, which takes seconds to translate.
add_library(starling_peer_commands STATIC
  child_process.cpp cli.cpp cli_commands.cpp consolidate.cpp coverage.cpp model_commands.cpp
  model_export.cpp model_import.cpp progress_bar.cpp sampling.cpp swarm_launcher.cpp
  swarm_supervisor.cpp swarm_view.cpp text_commands.cpp)
target_compile_definitions(starling_peer_commands PRIVATE STARLING_VERSION="${PROJECT_VERSION}")
target_link_libraries(starling_peer_commands
  PUBLIC starling_peer PkgConfig::libuv
  PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json)

add_executable(starling main.cpp)
target_link_libraries(starling PRIVATE starling_peer_commands)
