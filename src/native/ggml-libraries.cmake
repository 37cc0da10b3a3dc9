# ggml as shared libraries that lie in one folder, for the program and for GPU backends alike: they must fit each other.

set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
# Plain file names: no versioned names with symbolic links, and each object looks beside itself.
set(CMAKE_PLATFORM_NO_VERSIONED_SONAME ON)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
# Nothing is asked of the host but glibc; the C++ run time is a private copy in each object.
if(SHRUTI_RELEASE)
  # zig's linker: its C++ run time is static and hidden, but for the operators new and delete.
  add_link_options(-Wl,-s -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/ggml-libraries.map)
else()
  add_link_options(-static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL -Wl,--enable-new-dtags)
endif()
add_compile_options(-ffile-prefix-map=${CMAKE_BINARY_DIR}=build)

set(BUILD_SHARED_LIBS ON)
set(GGML_BACKEND_DL ON CACHE BOOL "")
set(GGML_NATIVE OFF CACHE BOOL "")
set(GGML_OPENMP OFF CACHE BOOL "")
set(GGML_CCACHE OFF CACHE BOOL "")
set(GGML_BUILD_TESTS OFF CACHE BOOL "")
set(GGML_BUILD_EXAMPLES OFF CACHE BOOL "")
