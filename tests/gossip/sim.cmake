# The simulator's own tests. STARLING_SIM_SEED=n runs one seed of the sweep, STARLING_SIM_SEEDS=n
# sets their number.
starling_add_tests(swarm_sim_test sim 1200
  SOURCES sim/swarm_sim_test.cpp ../support/swarm_run.cpp
  LINK starling_gossip_sim)
starling_add_tests(hostile_sim_test sim 240
  SOURCES sim/hostile_sim_test.cpp
  LINK starling_gossip_sim)
starling_add_tests(partition_sim_test sim 120
  SOURCES sim/partition_sim_test.cpp
  LINK starling_gossip_sim)
starling_add_tests(surge_sim_test sim 120
  SOURCES sim/surge_sim_test.cpp
  LINK starling_gossip_sim)
starling_add_tests(consensus_sim_test sim 120
  SOURCES sim/consensus_sim_test.cpp
  LINK starling_gossip_sim)

# Seeds by the thousand: scripts/simulate_night.
find_package(CLI11 REQUIRED)
add_executable(simulate ../support/simulate.cpp ../support/swarm_run.cpp)
target_link_libraries(simulate PRIVATE starling_gossip_sim CLI11::CLI11 fmt::fmt)
# Contraction at any size: consensus_night --peers 1000
add_executable(consensus_night ../support/consensus_night.cpp)
target_link_libraries(consensus_night PRIVATE starling_gossip_sim CLI11::CLI11)
starling_add_tests(coverage_sim_test sim 120
  SOURCES coverage_sim_test.cpp
  LINK starling_gossip)
starling_add_tests(patience_sim_test sim 120
  SOURCES sim/patience_sim_test.cpp ../support/swarm_run.cpp
  LINK starling_gossip_sim)
# Membership alone, at sizes the whole simulator does not reach. It sizes frames with the wire.
starling_add_tests(membership_sim_test sim 240
  SOURCES sim/membership_sim_test.cpp ../support/membership_swarm.cpp
  LINK starling_gossip_wire)
# For long runs and large swarms: membership_night --peers 10000 --minutes 60 --loss 0.01
add_executable(membership_night ../support/membership_night.cpp ../support/membership_swarm.cpp)
target_link_libraries(membership_night PRIVATE starling_gossip_wire)
