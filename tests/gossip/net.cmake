find_package(cppzmq REQUIRED)
find_package(Boost 1.81 REQUIRED)

starling_add_tests(gossip_wire_tests unit 60
  SOURCES clock_offsets_test.cpp net/envelope_test.cpp net/identity_test.cpp
    net/link_congestion_test.cpp net/link_forwarder_test.cpp net/link_limit_test.cpp
    net/link_reach_test.cpp
    net/payload_queues_test.cpp net/real_clock_test.cpp net/trust_test.cpp record_seal_test.cpp
    wire/wire_golden_test.cpp
    wire/wire_test.cpp wire/wire_values_test.cpp
  LINK starling_gossip_net cppzmq)
target_compile_definitions(gossip_wire_tests PRIVATE
  STARLING_FRAMES="${CMAKE_CURRENT_SOURCE_DIR}/goldens/frames.txt")
starling_add_tests(gossip_net_tests net 60
  SOURCES net/asio_driver_test.cpp net/download_limit_test.cpp net/driver_trust_test.cpp
    net/flooder_test.cpp net/hostile_peer_net_test.cpp net/link_bad_frames_test.cpp
    net/link_callers_test.cpp net/link_descriptors_test.cpp net/link_dial_test.cpp
    net/link_dialled_test.cpp
    net/link_duplex_test.cpp net/link_handshake_test.cpp net/link_line_test.cpp
    net/link_names_test.cpp net/link_rate_test.cpp net/link_relay_test.cpp net/link_tcp_test.cpp
    net/link_test.cpp net/link_trust_test.cpp net/name_resolver_test.cpp net/relay_net_test.cpp
    net/slow_reader_test.cpp
  LINK starling_gossip_net cppzmq Boost::headers Threads::Threads)

if(STARLING_BENCHMARKS)
  foreach(bench bench_exchange bench_link)
    add_executable(${bench} net/${bench}.cpp)
    target_link_libraries(${bench} PRIVATE
      starling_gossip_net starling_base cppzmq Boost::headers Threads::Threads)
  endforeach()
endif()

# scripts/chaos lets it loose on real peers, hostile_peer_net_test on one.
add_executable(net_hostile_peer net/net_hostile_peer.cpp)
target_link_libraries(net_hostile_peer PRIVATE starling_gossip_net cppzmq)
add_dependencies(gossip_net_tests net_hostile_peer)
target_compile_definitions(gossip_net_tests PRIVATE
  STARLING_HOSTILE_PEER="$<TARGET_FILE:net_hostile_peer>")
