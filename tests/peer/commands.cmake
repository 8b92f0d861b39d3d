# The launcher and the commands on checkpoints.
starling_add_tests(peer_command_tests unit 60
  SOURCES commands/cli_fault_test.cpp commands/cli_test.cpp commands/completion_test.cpp
    commands/manual_page_test.cpp commands/text_commands_test.cpp models/choices_test.cpp
    models/consolidate_test.cpp models/coverage_test.cpp models/distinct_peers_test.cpp
    models/generate_test.cpp models/hugging_face_golden_test.cpp models/model_commands_test.cpp
    models/model_export_test.cpp models/model_import_test.cpp models/model_tokenizer_test.cpp
    models/sampling_test.cpp status/status_test.cpp
  LINK starling_peer_commands PkgConfig::sentencepiece)
target_compile_definitions(peer_command_tests PRIVATE
  STARLING_GOLDENS="${CMAKE_CURRENT_SOURCE_DIR}/goldens"
  STARLING_MODEL_GOLDENS="${PROJECT_SOURCE_DIR}/tests/model/goldens")

# What computes, and what starling bench measures of it, with settings so small that the figures
# say nothing.
starling_add_tests(peer_bench_tests unit 60
  SOURCES bench/bench_exchange_test.cpp bench/bench_machine_test.cpp bench/bench_rates_test.cpp
    bench/bench_step_test.cpp bench/operator_cost_test.cpp bench/timed_ops_test.cpp
    machine/backend_test.cpp
  LINK starling_peer_bench)
if(STARLING_BENCHMARKS)
  find_package(benchmark REQUIRED)
  add_executable(bench_operators bench/bench_operators.cpp)
  target_link_libraries(bench_operators PRIVATE starling_peer_bench benchmark::benchmark)
endif()

# Simulated swarms with models of a few thousand parameters.
find_package(nlohmann_json REQUIRED)
starling_add_tests(peer_simulate_tests sim 120
  SOURCES simulate/line_time_test.cpp simulate/simulate_exchange_test.cpp
    simulate/simulate_gossip_test.cpp simulate/simulate_plan_test.cpp simulate/simulate_test.cpp
    simulate/virtual_network_test.cpp
  LINK starling_peer_simulate nlohmann_json::nlohmann_json)

# Real swarms whose peers wait for each other, beside which scripts/evidence measures.
find_package(cppzmq REQUIRED)
find_package(CLI11 REQUIRED)
add_executable(synchronous_peer ../support/synchronous_peer.cpp)
target_link_libraries(synchronous_peer PRIVATE
  starling_peer_commands cppzmq CLI11::CLI11 nlohmann_json::nlohmann_json)

# What swarms of described machines would need.
starling_add_tests(peer_swarm_plan_tests unit 60
  SOURCES commands/memory_command_test.cpp commands/plan_command_test.cpp io/text_table_test.cpp
    swarm/open_hours_test.cpp swarm/shares_test.cpp swarm/swarm_memory_test.cpp
    swarm/swarm_plan_file_test.cpp swarm/swarm_plan_test.cpp
  LINK starling_peer_commands nlohmann_json::nlohmann_json)
target_compile_definitions(peer_swarm_plan_tests PRIVATE
  STARLING_CONFIGS="${PROJECT_SOURCE_DIR}/configs")

# What is drawn on a terminal.
starling_add_tests(peer_view_tests unit 30
  SOURCES io/progress_bar_test.cpp io/repainter_test.cpp io/terminal_keys_test.cpp
    swarm/swarm_view_test.cpp
    watch/event_history_test.cpp watch/replay_test.cpp watch/replay_text_test.cpp
    watch/top_view_test.cpp
  LINK starling_peer_swarm starling_peer_watch)

# What the status server tells; without the peer behind it.
starling_add_tests(peer_status_tests unit 30
  SOURCES status/event_file_test.cpp status/prometheus_text_test.cpp status/status_history_test.cpp
    status/status_lines_test.cpp status/status_page_test.cpp status/status_request_test.cpp
    status/status_routes_test.cpp
  LINK starling_peer_status)
find_package(Boost 1.81 REQUIRED)
starling_add_tests(peer_status_server_tests net 60
  SOURCES status/status_client_test.cpp status/status_server_test.cpp
  LINK starling_peer_status Boost::headers Threads::Threads)

# What the doctor finds; net: it binds ports.
starling_add_tests(peer_doctor_tests net 60
  SOURCES doctor/doctor_fetch_test.cpp doctor/doctor_files_test.cpp doctor/doctor_machine_test.cpp
    doctor/doctor_network_test.cpp doctor/doctor_report_test.cpp doctor/doctor_seeds_test.cpp
    doctor/doctor_test.cpp doctor/doctor_visit_test.cpp
  LINK starling_peer_doctor Boost::headers Threads::Threads)

# Whole peers, each on its threads in one process.
starling_add_tests(peer_quiet_tests net 240
  SOURCES roles/quiet_hours_test.cpp
  LINK starling_peer_roles Boost::headers nlohmann_json::nlohmann_json Threads::Threads)

# Real processes and real ports.
starling_add_tests(peer_launcher_tests net 60
  SOURCES swarm/child_process_test.cpp swarm/port_pairs_test.cpp swarm/swarm_launcher_test.cpp
    swarm/swarm_launches_test.cpp swarm/swarm_supervisor_test.cpp watch/top_test.cpp
  LINK starling_peer_swarm starling_peer_watch nlohmann_json::nlohmann_json)

# The binary itself: it starts, and its libraries are found.
add_test(NAME "starling: the binary tells its version" COMMAND starling --version)
set_tests_properties("starling: the binary tells its version" PROPERTIES
  PASS_REGULAR_EXPRESSION "starling [0-9]+[.][0-9]+" LABELS unit TIMEOUT 10)
