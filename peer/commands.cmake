# The launcher, the commands on checkpoints and the binary.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
pkg_check_modules(libuv REQUIRED IMPORTED_TARGET libuv)

# Of its own, because the peer writes these lines and the launcher reads them; with it, what shows
# them to browsers.
set(embed ${CMAKE_CURRENT_SOURCE_DIR}/embed_page.cmake)
set(page_folder ${CMAKE_CURRENT_SOURCE_DIR}/status_page)
set(page_parts ${CMAKE_CURRENT_BINARY_DIR}/status_page_parts.cpp)
add_custom_command(OUTPUT ${page_parts}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${page_folder} -DOUT=${page_parts} -P ${embed}
  DEPENDS ${embed} ${page_folder}/page.html ${page_folder}/page.css
    ${page_folder}/page.js)
add_library(starling_peer_status STATIC
  event_file.cpp prometheus_text.cpp status.cpp status_client.cpp status_history.cpp status_page.cpp
  status_routes.cpp status_server.cpp ${page_parts})
target_link_libraries(starling_peer_status
  PUBLIC starling_base nlohmann_json::nlohmann_json
  PRIVATE Boost::headers PkgConfig::libsodium Threads::Threads)
target_link_libraries(starling_peer PUBLIC starling_peer_status)

# The files whose names begin with cli, but for cli_commands.cpp, include CLI11, which takes seconds
# to translate, and nobody else does.
add_library(starling_peer_commands STATIC
  bench_codec.cpp bench_exchange.cpp bench_machine.cpp bench_optimizer.cpp bench_rates.cpp
  bench_step.cpp bench_text.cpp child_process.cpp choices.cpp cli.cpp cli_bench.cpp
  cli_commands.cpp cli_fault.cpp cli_models.cpp completion.cpp consolidate.cpp coverage.cpp
  distinct_peers.cpp doctor.cpp doctor_fetch.cpp doctor_files.cpp doctor_machine.cpp
  doctor_network.cpp doctor_report.cpp doctor_seeds.cpp doctor_visit.cpp event_history.cpp
  generate.cpp manual_page.cpp memory_command.cpp model_commands.cpp model_export.cpp
  model_import.cpp model_runner.cpp open_hours.cpp operator_cost.cpp operator_times.cpp
  plan_command.cpp port_pairs.cpp progress_bar.cpp repainter.cpp replay.cpp replay_text.cpp
  sampling.cpp shares.cpp simulate.cpp simulate_exchange.cpp simulate_gossip.cpp
  simulate_measure.cpp simulate_meetings.cpp simulate_method.cpp simulate_plan.cpp
  simulate_report.cpp simulate_swarm.cpp swarm_launcher.cpp swarm_plan.cpp swarm_plan_file.cpp
  swarm_plan_parts.cpp swarm_supervisor.cpp swarm_view.cpp text_commands.cpp text_table.cpp
  timed_flat_ops.cpp timed_layer_ops.cpp top.cpp top_view.cpp virtual_network.cpp
  virtual_peer.cpp)
target_compile_definitions(starling_peer_commands PRIVATE STARLING_VERSION="${PROJECT_VERSION}")
target_link_libraries(starling_peer_commands
  PUBLIC starling_peer PkgConfig::libuv
  PRIVATE Boost::headers CLI11::CLI11 nlohmann_json::nlohmann_json
    tomlplusplus::tomlplusplus Threads::Threads)

add_executable(starling main.cpp)
target_link_libraries(starling PRIVATE starling_peer_commands)
if(STARLING_HAS_CUDA)  # the program loads no module but that of its own build
  add_dependencies(starling starling_cuda_module)
endif()

# What is installed beside the program, it tells itself: the manual page and the completions.
add_custom_command(TARGET starling POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/pages
  COMMAND starling manual > ${PROJECT_BINARY_DIR}/pages/starling.1
  COMMAND gzip -9nf ${PROJECT_BINARY_DIR}/pages/starling.1
  COMMAND starling completion bash > ${PROJECT_BINARY_DIR}/pages/starling
  COMMAND starling completion zsh > ${PROJECT_BINARY_DIR}/pages/_starling
  VERBATIM)
