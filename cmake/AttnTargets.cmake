# Compile and link settings that every target of the project shares, and the two ways to declare one.

add_library(attn_options INTERFACE)
target_include_directories(attn_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_include_directories(attn_options SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_options(attn_options INTERFACE
  -UNDEBUG # assertions stay on in our own files; Debian's LLVM has them off, which links and runs
  -Wall -Wextra -Wno-unused-parameter -Werror=return-type -Werror=switch
  -ffunction-sections -fdata-sections
  -fPIC # programs too, which may then share precompiled headers with libraries
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
target_link_options(attn_options INTERFACE -fuse-ld=lld -Wl,--gc-sections -Wl,--as-needed -Wl,--build-id=fast)
if(ATTN_SANITIZE)
  target_compile_options(attn_options INTERFACE -fsanitize=${ATTN_SANITIZE} -fno-sanitize-recover=undefined -g1)
  target_link_options(attn_options INTERFACE -fsanitize=${ATTN_SANITIZE})
endif()

# The headers of MLIR that most sources include: to parse them takes three quarters of a compilation, so that is done once.
# Sources include what they need all the same; configure with -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON to see that they do.
# Without time stamps, so that ccache finds the same file the same.
file(WRITE ${CMAKE_BINARY_DIR}/Precompiled.cpp "")
add_library(attn_precompiled OBJECT ${CMAKE_BINARY_DIR}/Precompiled.cpp)
target_link_libraries(attn_precompiled PRIVATE attn_options)
target_compile_options(attn_precompiled PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
target_precompile_headers(attn_precompiled PRIVATE
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Bufferization/IR/Bufferization.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/GPU/IR/GPUDialect.h>
  <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/Dialect/Vector/IR/VectorOps.h>
  <mlir/IR/ImplicitLocOpBuilder.h>
  <mlir/IR/Matchers.h>
  <mlir/IR/TypeUtilities.h>
  <mlir/Pass/PassManager.h>
  <llvm/ADT/TypeSwitch.h>)

# attn_precompile(target): its sources are of MLIR.
function(attn_precompile target)
  target_precompile_headers(${target} REUSE_FROM attn_precompiled)
endfunction()

# attn_library(Name SOURCES … LINK … DEPENDS … [WITHOUT_MLIR]): a static library of one layer.
function(attn_library name)
  cmake_parse_arguments(ARG "WITHOUT_MLIR" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC attn_options ${ARG_LINK})
  if(NOT ARG_WITHOUT_MLIR)
    attn_precompile(${name})
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# attn_tool(name SOURCES … LINK … [WITHOUT_MLIR]): a program in build/bin.
function(attn_tool name)
  cmake_parse_arguments(ARG "WITHOUT_MLIR" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE attn_options ${ARG_LINK})
  if(NOT ARG_WITHOUT_MLIR)
    attn_precompile(${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY ATTN_PROGRAMS ${name}) # what the check target builds first
endfunction()

# attn_tablegen(Target source.td OUTPUTS "flag output" …): mlir-tblgen beside the other generated files.
function(attn_tablegen target source)
  cmake_parse_arguments(ARG "" "" "OUTPUTS" ${ARGN})
  set(LLVM_TARGET_DEFINITIONS ${source})
  include_directories(${CMAKE_SOURCE_DIR} ${MLIR_INCLUDE_DIRS})
  foreach(pair IN LISTS ARG_OUTPUTS)
    separate_arguments(words UNIX_COMMAND "${pair}")
    list(GET words 0 output)
    list(SUBLIST words 1 -1 flags)
    mlir_tablegen(${output} ${flags})
  endforeach()
  add_public_tablegen_target(${target})
endfunction()
