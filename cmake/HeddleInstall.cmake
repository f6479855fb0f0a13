# `cmake --install build` installs the package that find_package(Heddle) finds.
# It has two components: Development (headers, libraries, the plugin) and Tools.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/heddle-${PROJECT_VERSION})
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Heddle)

function(heddle_install target component)
  if(TARGET ${target})
    # Libraries are found relative to the file, so the tree may be moved. MLIR
    # is found at the path that it had in the build.
    set_target_properties(${target} PROPERTIES
      INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../lib"
      INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS ${target} ${ARGN} COMPONENT ${component})
  endif()
endfunction()

if(TARGET heddle_rt)
  set_target_properties(heddle_rt PROPERTIES EXPORT_NAME Runtime)
endif()
foreach(library heddle_rt HeddleShared)
  if(TARGET ${library})
    target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${headers}>)
    heddle_install(${library} Development EXPORT HeddleTargets
                   LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
# The runtime opens these beside itself.
foreach(library heddle_onednn heddle_gloo)
  heddle_install(${library} Development LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
if(TARGET HeddleMLIR)
  install(TARGETS HeddleMLIR EXPORT HeddleTargets)
endif()
heddle_install(HeddlePlugin Development
               LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(tool heddle heddle-opt heddle-run heddle-solve)
  heddle_install(${tool} Tools RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endforeach()

# tools/package takes these from the build folder, so they name no folder of this
# machine there either.
foreach(target heddle_rt heddle_onednn heddle_gloo heddle-run)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  endif()
endforeach()

install(DIRECTORY runtime/include/heddle_rt DESTINATION ${headers}
        COMPONENT Development)
if(HEDDLE_BUILD_COMPILER)
  # TableGen files are installed too, because a dialect's ops name Heddle's
  # interfaces.
  install(DIRECTORY dialects include/heddle include/heddle-c DESTINATION ${headers}
          COMPONENT Development
          FILES_MATCHING PATTERN "*.h" PATTERN "*.td")
  install(DIRECTORY ${CMAKE_BINARY_DIR}/dialects ${CMAKE_BINARY_DIR}/include/heddle
          DESTINATION ${headers} COMPONENT Development
          FILES_MATCHING PATTERN "*.h.inc" PATTERN CMakeFiles EXCLUDE)
endif()

install(EXPORT HeddleTargets NAMESPACE Heddle:: DESTINATION ${package}
        COMPONENT Development)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/HeddleConfig.cmake.in
  ${CMAKE_BINARY_DIR}/HeddleConfig.cmake INSTALL_DESTINATION ${package} PATH_VARS headers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/HeddleConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/HeddleConfig.cmake
              ${CMAKE_BINARY_DIR}/HeddleConfigVersion.cmake
        DESTINATION ${package} COMPONENT Development)
