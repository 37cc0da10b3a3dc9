# The addon: smart-whisper's class of a model, Shruti's binding, and whisper.cpp. Variables: see CMakeLists.txt.
add_compile_options(-ffile-prefix-map=${BINDING_SOURCE}=smart-whisper)
find_package(Threads REQUIRED)
# What is used of the package; patches/README.md says what is replaced, and why.
set(PACKAGE ${BINDING_SOURCE}/src/binding)
set(PACKAGE_SOURCES ${PACKAGE}/binding.cc ${PACKAGE}/common.cc ${PACKAGE}/model.cc)
# Steps of several transcriptions at once: steps/whisper.cc includes whisper.cpp, whose internals it needs.
file(GLOB OWN_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/binding/*.cc
  ${CMAKE_CURRENT_SOURCE_DIR}/steps/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/decoding/*.cc
  ${CMAKE_CURRENT_SOURCE_DIR}/alignment/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/drafting/*.cc)
# TDT models compute with the same ggml. Their spectrum is that of the CTC models.
file(GLOB TDT_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/../tdt/*.cc)
list(APPEND OWN_SOURCES ${TDT_SOURCES} ${CMAKE_CURRENT_SOURCE_DIR}/../onnx/spectrum.c)
add_library(smart-whisper MODULE ${PACKAGE_SOURCES} ${OWN_SOURCES})
set_target_properties(smart-whisper PROPERTIES PREFIX "" SUFFIX ".addon" CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
# ggml/src: the abort and thread-pool hook of the binding reads the registry's struct (ggml-backend-impl.h).
target_include_directories(smart-whisper PRIVATE ${KERNELS}
  ${CMAKE_CURRENT_SOURCE_DIR}/binding ${CMAKE_CURRENT_SOURCE_DIR}/steps ${CMAKE_CURRENT_SOURCE_DIR}/decoding
  ${CMAKE_CURRENT_SOURCE_DIR}/alignment ${CMAKE_CURRENT_SOURCE_DIR}/drafting ${CMAKE_CURRENT_SOURCE_DIR}/../tdt ${PACKAGE}
  ${WHISPER_SOURCE}/include ${WHISPER_SOURCE}/src ${WHISPER_SOURCE}/ggml/src ${NODE_INCLUDES})
target_compile_definitions(smart-whisper PRIVATE
  SHRUTI_KERNELS WHISPER_VERSION="1.9.1" NAPI_VERSION=8 NAPI_CPP_EXCEPTIONS NODE_ADDON_API_DISABLE_DEPRECATED _GNU_SOURCE)
target_link_libraries(smart-whisper PRIVATE ggml Threads::Threads)
