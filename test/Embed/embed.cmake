# Installs Heddle, builds examples/embed against it and runs that project's own
# tests.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command} failed (${status}):\n${output}")
  endif()
endfunction()

foreach(component Development Tools)
  run(${CMAKE_COMMAND} --install ${BUILD} --component ${component}
      --prefix ${SCRATCH}/prefix)
endforeach()
# The installed tools must find their libraries, MLIR's included.
foreach(tool heddle heddle-opt heddle-run)
  run(${SCRATCH}/prefix/bin/${tool} --help)
endforeach()
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH}/build -G Ninja
    -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=
    # The three files of C++ include the same headers.
    -DCMAKE_UNITY_BUILD=ON
    # Some compilers link so by default. Then embed-c finds MLIR only through
    # libHeddle.
    -DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed
    -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
    -DCMAKE_C_COMPILER_LAUNCHER=${LAUNCHER}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build ${SCRATCH}/build)
run(ctest --test-dir ${SCRATCH}/build --output-on-failure)
