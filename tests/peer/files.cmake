starling_add_tests(peer_file_tests unit 60
  SOURCES checkpoint_parts_test.cpp checkpoint_store_test.cpp checkpoint_test.cpp
    checkpoint_write_test.cpp addresses_test.cpp config_addresses_test.cpp config_test.cpp
    dataset_test.cpp disk_test.cpp file_io_test.cpp hugging_face_test.cpp human_text_test.cpp
    key_files_test.cpp line_file_test.cpp metrics_files_test.cpp part_reader_test.cpp
    reach_test.cpp role_settings_test.cpp run_folder_test.cpp run_start_test.cpp
    safetensors_test.cpp token_shard_test.cpp traffic_plan_test.cpp
  LINK starling_peer Threads::Threads)
target_compile_definitions(peer_file_tests PRIVATE
  STARLING_CONFIGS="${PROJECT_SOURCE_DIR}/configs")

# In an executable of their own: it stands in for calls of the system.
starling_add_tests(peer_disk_fault_tests unit 60
  SOURCES disk_fault_test.cpp ../support/failing_disk.cpp
  LINK starling_peer_files Threads::Threads ${CMAKE_DL_LIBS})

# From texts to tokens.
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
starling_add_tests(peer_text_tests unit 60
  SOURCES byte_source_test.cpp prepare_test.cpp text_file_test.cpp tokenizer_file_test.cpp
    tokenizer_training_test.cpp
  LINK starling_peer_files PkgConfig::libzstd PkgConfig::sentencepiece PkgConfig::zlib)
target_compile_definitions(peer_text_tests PRIVATE
  STARLING_MODEL_GOLDENS="${PROJECT_SOURCE_DIR}/tests/model/goldens")

starling_add_tests(peer_file_slow_tests slow 120
  SOURCES checkpoint_kill_test.cpp
  LINK starling_peer_files Threads::Threads)
