find_package(cppzmq REQUIRED)
find_package(Boost 1.81 REQUIRED)

starling_add_tests(gossip_wire_tests unit 60
  SOURCES payload_queues_test.cpp wire_test.cpp
  LINK starling_gossip_net)
starling_add_tests(gossip_net_tests net 60
  SOURCES link_test.cpp asio_driver_test.cpp
  LINK starling_gossip_net cppzmq Boost::headers Threads::Threads)
