# Cereal frames, ZeroMQ sockets and the Boost.Asio loop. The core beside them needs none of these.
find_package(cppzmq REQUIRED)
find_package(cereal REQUIRED)
find_package(Boost 1.81 REQUIRED)

add_library(starling_gossip_net STATIC
  asio_driver.cpp link.cpp link_sockets.cpp payload_queues.cpp wire.cpp)
target_link_libraries(starling_gossip_net
  PUBLIC starling_gossip
  PRIVATE cppzmq cereal::cereal Boost::headers Threads::Threads)
