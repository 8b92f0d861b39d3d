# The simulator, a driver of the core. Of what the one in real time has, only the frames.
add_library(starling_gossip_sim STATIC
  sim_audit.cpp sim_driver.cpp sim_faults.cpp sim_graves.cpp sim_hostile.cpp
  sim_hostile_deeds.cpp sim_keeper.cpp sim_mixer.cpp sim_network.cpp sim_observe.cpp
  sim_options.cpp sim_relayed.cpp sim_states.cpp sim_stats.cpp sim_transport.cpp sim_wire.cpp)
target_link_libraries(starling_gossip_sim PUBLIC starling_gossip PRIVATE starling_gossip_wire)
