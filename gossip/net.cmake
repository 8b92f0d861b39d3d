# Keys and trust, ZeroMQ sockets and the Boost.Asio loop. The core beside them needs
# none of these.
find_package(cppzmq REQUIRED)
find_package(Boost 1.81 REQUIRED)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)

add_library(starling_gossip_net STATIC
  asio_driver.cpp asio_driver_inputs.cpp clock_offsets.cpp envelope.cpp identity.cpp link.cpp
  link_bulk.cpp link_callers.cpp link_congestion.cpp link_door.cpp link_forwarder.cpp link_inbox.cpp
  link_limit.cpp link_line.cpp link_rate.cpp link_receive.cpp link_relay.cpp link_sent.cpp
  link_sockets.cpp link_tcp.cpp name_resolver.cpp payload_queues.cpp real_clock.cpp trust.cpp)
target_link_libraries(starling_gossip_net
  PUBLIC starling_gossip starling_gossip_wire
  PRIVATE cppzmq PkgConfig::sodium Boost::headers Threads::Threads)
