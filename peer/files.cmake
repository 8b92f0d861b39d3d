# Files of a peer: configuration, token shards, checkpoints, the disk role, the run folder.
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(libuv REQUIRED IMPORTED_TARGET libuv)

add_library(starling_peer_files STATIC
  addresses.cpp byte_source.cpp checkpoint.cpp checkpoint_parts.cpp checkpoint_store.cpp
  checkpoint_write.cpp config.cpp config_keys.cpp config_reader.cpp config_text.cpp dataset.cpp
  disk.cpp encode_crew.cpp file_io.cpp hugging_face.cpp human_text.cpp line_file.cpp
  part_reader.cpp prepare.cpp reach.cpp run_folder.cpp run_start.cpp safetensors.cpp
  stored_model.cpp text_file.cpp token_shard.cpp tokenizer_file.cpp tokenizer_training.cpp
  traffic_plan.cpp)
target_link_libraries(starling_peer_files
  PUBLIC starling_base starling_gossip starling_model starling_optim PkgConfig::libuv
  PRIVATE tomlplusplus::tomlplusplus nlohmann_json::nlohmann_json PkgConfig::libzstd PkgConfig::zlib
    Boost::headers Threads::Threads)
