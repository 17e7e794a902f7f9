# Finds MLIR and makes its imported targets link statically.
#
# Debian's packages ship archives and shared objects, but their CMake targets name the shared LLVM. One static
# binary runs on any machine, and a host process's own LLVM (PyTorch, Triton, JAX) never meets ours.

find_package(MLIR REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
set(LLVM_LINK_LLVM_DYLIB OFF)
set(MLIR_LINK_MLIR_DYLIB OFF)
include(TableGen)
include(AddLLVM)
include(AddMLIR)

llvm_map_components_to_libnames(ATTN_LLVM_LIBS
  core support orcjit native nativecodegen perfjitevents passes irreader linker option remarks
  executionengine jitlink runtimedyld frontendopenmp frontendoffloading bitwriter asmparser debuginfodwarf
  transformutils ipo)

foreach(target IN LISTS MLIR_EXPORTED_TARGETS)
  if(NOT TARGET ${target})
    continue()
  endif()
  get_target_property(libs ${target} INTERFACE_LINK_LIBRARIES)
  if(NOT libs)
    continue()
  endif()
  list(TRANSFORM libs REPLACE "^LLVM$" "${ATTN_LLVM_LIBS}")
  list(REMOVE_ITEM libs MLIR)
  set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${libs}")
endforeach()
