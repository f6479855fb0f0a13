# Functions that every CMakeLists.txt of Heddle uses, so that one place sets
# warnings, include paths and precompiled headers.

function(heddle_compile_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wno-unused-parameter>)
endfunction()

# heddle_compile_quickly(target): inlines little, which halves the time of
# compilation. For tests and command lines, which do not compute.
function(heddle_compile_quickly target)
  target_compile_options(${target} PRIVATE "SHELL:-mllvm -inline-threshold=0")
endfunction()

# heddle_unite(target): compiles up to eight of the target's C++ files as one, so
# that they share parsed headers and template instantiations. A batch holds
# neighbours in the list of sources. It ends with its folder if it has five
# files by then, so that a new file changes few batches. The names that are
# local to a file must therefore differ between neighbours. Files with their own
# compile options stay alone. HEDDLE_UNITY=OFF compiles each file by itself.
function(heddle_unite target)
  if(NOT HEDDLE_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(LENGTH sources files)
  if(files EQUAL 1)
    return()
  endif()
  set(count 0)
  set(last "")
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    if(count EQUAL 0 OR count EQUAL 8 OR (count GREATER 4 AND NOT "${folder}" STREQUAL "${last}"))
      string(MAKE_C_IDENTIFIER ${source} batch)
      set(count 0)
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${batch})
    math(EXPR count "${count} + 1")
    set(last "${folder}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# heddle_precompile(target owner): the target uses the precompiled header of the
# owner. Libraries are compiled with -fPIC and executables with -fPIE, and a
# precompiled header serves only one of the two.
function(heddle_precompile target owner)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# heddle_add_library(Name file.cpp ... [LINK lib ...]): plain C++ without LLVM.
function(heddle_add_library name)
  cmake_parse_arguments(ARG "SHARED" "" "LINK" ${ARGN})
  if(ARG_SHARED)
    add_library(${name} SHARED ${ARG_UNPARSED_ARGUMENTS})
  else()
    add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  endif()
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/runtime/include>)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  heddle_precompile(${name} HeddlePrecompiledPlain)
  heddle_compile_options(${name})
  heddle_unite(${name})
endfunction()

# A process must have the code of LLVM and MLIR once. Targets link libLLVM.so and
# libMLIR.so, except for two kinds:
# - With the property HEDDLE_MLIR_OF_HOST, a target has no MLIR: the program that
#   loads it already contains MLIR.
# - With HEDDLE_STATIC_MLIR, an executable contains both, and cannot load plugins.
#   It starts in 13 ms instead of 25, and calls to MLIR take less time: planning a
#   small model takes three quarters of the time. It has 160 MB instead of 17.
set(isStatic $<BOOL:$<TARGET_PROPERTY:HEDDLE_STATIC_MLIR>>)
set(HEDDLE_LLVM $<$<NOT:${isStatic}>:LLVM>)
if(HEDDLE_BUILD_COMPILER)
  add_library(HeddleMLIR INTERFACE)
  set_target_properties(HeddleMLIR PROPERTIES EXPORT_NAME MLIR)
  set(hasMLIR $<BOOL:$<TARGET_PROPERTY:HEDDLE_MLIR_OF_HOST>>)
  target_link_libraries(HeddleMLIR INTERFACE
    $<$<NOT:$<OR:${hasMLIR},${isStatic}>>:MLIR> ${HEDDLE_LLVM})
endif()

# heddle_use_static_mlir(executable): gives it LLVM and MLIR of its own, if the
# archives are there and nobody instruments the code.
function(heddle_use_static_mlir target)
  file(GLOB archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
  # Tests, and the C API, whose parts libMLIR.so has too.
  list(FILTER archives EXCLUDE REGEX "Test|MLIRCAPI")
  find_library(HEDDLE_Z z)
  find_library(HEDDLE_ZSTD zstd)
  find_library(HEDDLE_XML2 xml2)
  if(archives MATCHES "libMLIRIR.a" AND archives MATCHES "libLLVMCore.a" AND
     HEDDLE_Z AND HEDDLE_ZSTD AND HEDDLE_XML2 AND NOT HEDDLE_SANITIZE)
    set_target_properties(${target} PROPERTIES HEDDLE_STATIC_MLIR ON)
    target_link_libraries(${target} PRIVATE -Wl,--start-group ${archives}
      -Wl,--end-group ${HEDDLE_Z} ${HEDDLE_ZSTD} ${HEDDLE_XML2} ${CMAKE_DL_LIBS}
      -Wl,--gc-sections)
  endif()
endfunction()

# heddle_use_llvm(target): adds LLVM's headers and libLLVM.so, without MLIR.
function(heddle_use_llvm target)
  target_include_directories(${target} SYSTEM PUBLIC
    "$<BUILD_INTERFACE:${LLVM_INCLUDE_DIRS}>")
  target_link_libraries(${target} PUBLIC ${HEDDLE_LLVM})
endfunction()

# heddle_use_mlir(target): adds MLIR's headers and libMLIR.so.
function(heddle_use_mlir target)
  foreach(folder ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}
                 ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include
                 ${CMAKE_SOURCE_DIR}/runtime/include)
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${folder}>)
  endforeach()
  target_include_directories(${target} SYSTEM PUBLIC
    "$<BUILD_INTERFACE:${MLIR_INCLUDE_DIRS};${LLVM_INCLUDE_DIRS}>")
  target_link_libraries(${target} PUBLIC HeddleMLIR)
  heddle_precompile(${target} HeddlePrecompiledMLIR)
  add_dependencies(${target} heddle-tablegen)
  heddle_compile_options(${target})
  heddle_unite(${target})
endfunction()

# heddle_add_mlir_library(Name file.cpp ... [LINK lib ...])
function(heddle_add_mlir_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  heddle_use_mlir(${name})
endfunction()

# heddle_tablegen(File.td -gen-op-decls Out.h.inc ...): runs each generator and
# writes the output that follows it to the caller's build folder, before any
# compilation.
function(heddle_tablegen file)
  set(LLVM_TARGET_DEFINITIONS ${file})
  set_property(DIRECTORY APPEND PROPERTY INCLUDE_DIRECTORIES ${MLIR_INCLUDE_DIRS} ${CMAKE_SOURCE_DIR})
  # LLVM's TableGen.cmake writes depfiles with paths relative to
  # CMAKE_BINARY_DIR. CMake reads them as relative to the caller's build folder
  # (policy CMP0116).
  set(CMAKE_BINARY_DIR ${CMAKE_CURRENT_BINARY_DIR})
  set(outputs)
  set(arguments ${ARGN})
  while(arguments)
    list(POP_FRONT arguments generator output)
    string(REPLACE "," ";" flags "${generator}")
    mlir_tablegen(${output} ${flags})
    list(APPEND outputs ${CMAKE_CURRENT_BINARY_DIR}/${output})
  endwhile()
  # This file is for a language server and would grow with every configuration.
  file(REMOVE ${CMAKE_BINARY_DIR}/tablegen_compile_commands.yml)
  string(MAKE_C_IDENTIFIER "tablegen-${CMAKE_CURRENT_SOURCE_DIR}-${file}" target)
  add_custom_target(${target} DEPENDS ${outputs})
  add_dependencies(heddle-tablegen ${target})
endfunction()
if(HEDDLE_BUILD_COMPILER)
  add_custom_target(heddle-tablegen)
endif()

# heddle_sanitizer_options(test): lets UBSan's reports include the stack.
function(heddle_sanitizer_options test)
  if(HEDDLE_SANITIZE MATCHES "undefined")
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
      "UBSAN_OPTIONS=print_stacktrace=1")
  endif()
endfunction()

# heddle_ignore_gloo(test): makes ThreadSanitizer ignore the accesses of Gloo's
# code. Gloo is not instrumented, so its synchronization is only seen in part.
function(heddle_ignore_gloo test)
  if(HEDDLE_SANITIZE MATCHES "thread")
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
      "TSAN_OPTIONS=ignore_noninstrumented_modules=1")
  endif()
endfunction()

# heddle_add_unittest(name file.cpp ... [LINK lib ...] [MLIR] [GLOO] [SHARDS n])
# SHARDS n divides the cases among n tests of ctest. These start before other
# tests (COST), so that cores are busy until the end. GLOO is for tests with
# several processes.
function(heddle_add_unittest name)
  cmake_parse_arguments(ARG "MLIR;GLOO" "SHARDS" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main)
  if(ARG_MLIR)
    heddle_use_mlir(${name})
  else()
    heddle_precompile(${name} HeddlePrecompiledPlain)
    heddle_compile_options(${name})
    heddle_unite(${name})
  endif()
  heddle_compile_quickly(${name})
  if(ARG_SHARDS)
    set(tests)
    math(EXPR last "${ARG_SHARDS} - 1")
    foreach(shard RANGE ${last})
      set(test ${name}_${shard})
      add_test(NAME ${test} COMMAND ${name})
      set_tests_properties(${test} PROPERTIES COST 100 ENVIRONMENT
        "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
      list(APPEND tests ${test})
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name})
    set(tests ${name})
  endif()
  foreach(test ${tests})
    heddle_sanitizer_options(${test})
    if(ARG_GLOO)
      heddle_ignore_gloo(${test})
    endif()
  endforeach()
endfunction()
