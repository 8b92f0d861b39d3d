starling_add_tests(peer_file_tests unit 60
  SOURCES config/addresses_test.cpp config/config_addresses_test.cpp config/config_test.cpp
    config/traffic_plan_test.cpp files/checkpoint_codec_test.cpp files/checkpoint_parts_test.cpp
    files/checkpoint_store_test.cpp files/checkpoint_test.cpp files/checkpoint_write_test.cpp
    files/dataset_test.cpp files/disk_test.cpp files/hugging_face_test.cpp files/key_files_test.cpp
    files/line_file_test.cpp files/part_reader_test.cpp files/run_folder_test.cpp
    files/safetensors_test.cpp files/token_shard_test.cpp io/file_io_test.cpp io/human_text_test.cpp
    roles/role_settings_test.cpp roles/run_start_test.cpp status/metrics_files_test.cpp
  LINK starling_peer_roles Threads::Threads)
target_compile_definitions(peer_file_tests PRIVATE
  STARLING_CONFIGS="${PROJECT_SOURCE_DIR}/configs")

# In an executable of their own: it stands in for calls of the system.
starling_add_tests(peer_disk_fault_tests unit 60
  SOURCES files/disk_fault_test.cpp ../support/failing_disk.cpp
  LINK starling_peer_files Threads::Threads ${CMAKE_DL_LIBS})

# From texts to tokens.
pkg_check_modules(libzstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
starling_add_tests(peer_text_tests unit 60
  SOURCES files/byte_source_test.cpp files/prepare_test.cpp files/text_file_test.cpp
    files/tokenizer_file_test.cpp files/tokenizer_training_test.cpp
  LINK starling_peer_files PkgConfig::libzstd PkgConfig::sentencepiece PkgConfig::zlib)
target_compile_definitions(peer_text_tests PRIVATE
  STARLING_MODEL_GOLDENS="${PROJECT_SOURCE_DIR}/tests/model/goldens")

starling_add_tests(peer_file_slow_tests slow 120
  SOURCES files/checkpoint_kill_test.cpp
  LINK starling_peer_files Threads::Threads)
