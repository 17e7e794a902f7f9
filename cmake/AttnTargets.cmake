# Compile and link settings that every target of the project shares, and the two ways to declare one.

add_library(attn_options INTERFACE)
target_include_directories(attn_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_include_directories(attn_options SYSTEM INTERFACE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_compile_options(attn_options INTERFACE
  -UNDEBUG # assertions stay on in our own files; Debian's LLVM has them off, which links and runs
  -Wall -Wextra -Wno-unused-parameter -Werror=return-type -Werror=switch
  -ffunction-sections -fdata-sections
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
target_link_options(attn_options INTERFACE -fuse-ld=lld -Wl,--gc-sections -Wl,--as-needed -Wl,--build-id=fast)
if(ATTN_SANITIZE)
  target_compile_options(attn_options INTERFACE -fsanitize=${ATTN_SANITIZE} -fno-sanitize-recover=undefined -g1)
  target_link_options(attn_options INTERFACE -fsanitize=${ATTN_SANITIZE})
endif()

# attn_library(Name SOURCES … LINK … DEPENDS …): a static library of one layer.
function(attn_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC attn_options ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# attn_tool(name SOURCES … LINK …): a program in build/bin.
function(attn_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE attn_options ${ARG_LINK})
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
