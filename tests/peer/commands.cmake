# The launcher and the commands on checkpoints.
starling_add_tests(peer_command_tests unit 60
  SOURCES choices_test.cpp cli_fault_test.cpp cli_test.cpp completion_test.cpp
    consolidate_test.cpp coverage_test.cpp distinct_peers_test.cpp generate_test.cpp
    hugging_face_golden_test.cpp manual_page_test.cpp model_commands_test.cpp
    model_export_test.cpp model_import_test.cpp model_tokenizer_test.cpp
    sampling_test.cpp status_test.cpp text_commands_test.cpp
  LINK starling_peer_commands PkgConfig::sentencepiece)
target_compile_definitions(peer_command_tests PRIVATE
  STARLING_GOLDENS="${CMAKE_CURRENT_SOURCE_DIR}/goldens"
  STARLING_MODEL_GOLDENS="${PROJECT_SOURCE_DIR}/tests/model/goldens")

# What computes, and what starling bench measures of it, with settings so small that the figures
# say nothing.
starling_add_tests(peer_bench_tests unit 60
  SOURCES backend_test.cpp bench_exchange_test.cpp bench_machine_test.cpp bench_rates_test.cpp
    bench_step_test.cpp operator_cost_test.cpp timed_ops_test.cpp
  LINK starling_peer_commands)
if(STARLING_BENCHMARKS)
  find_package(benchmark REQUIRED)
  add_executable(bench_operators bench_operators.cpp)
  target_link_libraries(bench_operators PRIVATE starling_peer_commands benchmark::benchmark)
endif()

# Simulated swarms with models of a few thousand parameters.
find_package(nlohmann_json REQUIRED)
starling_add_tests(peer_simulate_tests sim 120
  SOURCES line_time_test.cpp simulate_exchange_test.cpp simulate_gossip_test.cpp
    simulate_plan_test.cpp simulate_test.cpp virtual_network_test.cpp
  LINK starling_peer_commands nlohmann_json::nlohmann_json)

# Real swarms whose peers wait for each other, beside which scripts/evidence measures.
find_package(cppzmq REQUIRED)
find_package(CLI11 REQUIRED)
add_executable(synchronous_peer ../support/synchronous_peer.cpp)
target_link_libraries(synchronous_peer PRIVATE
  starling_peer_commands cppzmq CLI11::CLI11 nlohmann_json::nlohmann_json)

# What swarms of described machines would need.
starling_add_tests(peer_swarm_plan_tests unit 60
  SOURCES memory_command_test.cpp open_hours_test.cpp plan_command_test.cpp shares_test.cpp
    swarm_plan_file_test.cpp swarm_plan_test.cpp text_table_test.cpp
  LINK starling_peer_commands nlohmann_json::nlohmann_json)
target_compile_definitions(peer_swarm_plan_tests PRIVATE
  STARLING_CONFIGS="${PROJECT_SOURCE_DIR}/configs")

# What is drawn on a terminal.
starling_add_tests(peer_view_tests unit 30
  SOURCES event_history_test.cpp progress_bar_test.cpp repainter_test.cpp replay_test.cpp
    replay_text_test.cpp swarm_view_test.cpp top_view_test.cpp
  LINK starling_peer_commands)

# What the status server tells; without the peer behind it.
starling_add_tests(peer_status_tests unit 30
  SOURCES event_file_test.cpp prometheus_text_test.cpp status_history_test.cpp status_page_test.cpp
    status_routes_test.cpp
  LINK starling_peer_status)
find_package(Boost 1.81 REQUIRED)
starling_add_tests(peer_status_server_tests net 60
  SOURCES status_client_test.cpp status_server_test.cpp
  LINK starling_peer_status Boost::headers Threads::Threads)

# What the doctor finds; net: it binds ports.
starling_add_tests(peer_doctor_tests net 60
  SOURCES doctor_fetch_test.cpp doctor_files_test.cpp doctor_machine_test.cpp
    doctor_network_test.cpp doctor_report_test.cpp doctor_seeds_test.cpp doctor_test.cpp
    doctor_visit_test.cpp
  LINK starling_peer_commands Boost::headers Threads::Threads)

# Whole peers, each on its threads in one process.
starling_add_tests(peer_quiet_tests net 240
  SOURCES quiet_hours_test.cpp
  LINK starling_peer Boost::headers nlohmann_json::nlohmann_json Threads::Threads)

# Real processes and real ports.
starling_add_tests(peer_launcher_tests net 60
  SOURCES child_process_test.cpp port_pairs_test.cpp swarm_launcher_test.cpp
    swarm_supervisor_test.cpp top_test.cpp
  LINK starling_peer_commands)

# The binary itself: it starts, and its libraries are found.
add_test(NAME "starling: the binary tells its version" COMMAND starling --version)
set_tests_properties("starling: the binary tells its version" PROPERTIES
  PASS_REGULAR_EXPRESSION "starling [0-9]+[.][0-9]+" LABELS unit TIMEOUT 10)
