find_package(cppzmq REQUIRED)
find_package(Boost 1.81 REQUIRED)

starling_add_tests(gossip_wire_tests unit 60
  SOURCES clock_offsets_test.cpp envelope_test.cpp identity_test.cpp link_congestion_test.cpp
    link_forwarder_test.cpp link_limit_test.cpp payload_queues_test.cpp record_seal_test.cpp
    trust_test.cpp wire_golden_test.cpp wire_test.cpp wire_values_test.cpp
  LINK starling_gossip_net cppzmq)
target_compile_definitions(gossip_wire_tests PRIVATE
  STARLING_FRAMES="${CMAKE_CURRENT_SOURCE_DIR}/goldens/frames.txt")
starling_add_tests(gossip_net_tests net 60
  SOURCES asio_driver_test.cpp download_limit_test.cpp driver_trust_test.cpp flooder_test.cpp
    hostile_peer_net_test.cpp link_bad_frames_test.cpp link_callers_test.cpp link_dial_test.cpp
    link_duplex_test.cpp link_handshake_test.cpp link_line_test.cpp link_names_test.cpp
    link_rate_test.cpp link_relay_test.cpp link_tcp_test.cpp link_test.cpp link_trust_test.cpp
    name_resolver_test.cpp relay_net_test.cpp slow_reader_test.cpp
  LINK starling_gossip_net cppzmq Boost::headers Threads::Threads)

if(STARLING_BENCHMARKS)
  foreach(bench bench_exchange bench_link)
    add_executable(${bench} ${bench}.cpp)
    target_link_libraries(${bench} PRIVATE
      starling_gossip_net starling_base cppzmq Boost::headers Threads::Threads)
  endforeach()
endif()

# scripts/chaos lets it loose on real peers, hostile_peer_net_test on one.
add_executable(net_hostile_peer net_hostile_peer.cpp)
target_link_libraries(net_hostile_peer PRIVATE starling_gossip_net cppzmq)
add_dependencies(gossip_net_tests net_hostile_peer)
target_compile_definitions(gossip_net_tests PRIVATE
  STARLING_HOSTILE_PEER="$<TARGET_FILE:net_hostile_peer>")
