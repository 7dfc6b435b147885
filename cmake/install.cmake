# What `cmake --install` puts where, and how others find it: find_package(holdfast) and pkg-config.
# Stores add themselves to the global properties that stores/CMakeLists.txt lists.
#
# A backend that links something adds it to these global properties, for those who link the static library:
#   HOLDFAST_PC_REQUIRES  its pkg-config module
#   HOLDFAST_PC_LIBS      or, where there is no such module, what the linker is to be told
#   HOLDFAST_DEPENDENCIES the arguments of its find_dependency()
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS holdfast EXPORT holdfast)
get_property(stores GLOBAL PROPERTY HOLDFAST_STORES)
install(DIRECTORY include/holdfast TYPE INCLUDE PATTERN postgres.hpp EXCLUDE PATTERN sqlite.hpp EXCLUDE)
install(EXPORT holdfast NAMESPACE holdfast:: FILE holdfast-targets.cmake DESTINATION ${package_dir})

if(TARGET holdfast-tool AND BUILD_SHARED_LIBS)
  # The installed command finds the library beside it, wherever the prefix is.
  file(RELATIVE_PATH from_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(holdfast-tool PROPERTIES INSTALL_RPATH "$ORIGIN/${from_bin_to_lib}")
endif()

# The shared library has its own dependencies inside; who links the static one has to link them as well.
set(requires)
set(find_dependencies)
set(pc_libs)
if(NOT BUILD_SHARED_LIBS)
  get_property(backend_requires GLOBAL PROPERTY HOLDFAST_PC_REQUIRES)
  list(JOIN backend_requires ", " backend_requires)
  string(JOIN ", " requires tomlplusplus ${backend_requires})
  get_property(backend_libs GLOBAL PROPERTY HOLDFAST_PC_LIBS)
  foreach(lib IN LISTS backend_libs)
    string(APPEND pc_libs " ${lib}")
  endforeach()
  get_property(backend_dependencies GLOBAL PROPERTY HOLDFAST_DEPENDENCIES)
  foreach(dependency IN ITEMS tomlplusplus LISTS backend_dependencies)
    string(APPEND find_dependencies "find_dependency(${dependency})\n")
  endforeach()
endif()

configure_package_config_file(cmake/holdfast-config.cmake.in holdfast-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(holdfast-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/holdfast-config.cmake ${PROJECT_BINARY_DIR}/holdfast-config-version.cmake
  DESTINATION ${package_dir})

# For pkg-config: paths relative to the .pc file itself, so that the tree may be moved; absolute ones stay as they were given.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /prefix/${pkgconfig_dir} /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(pc_prefix "\${pcfiledir}/${up}")
endif()
foreach(dir IN ITEMS LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(pc_${dir} ${CMAKE_INSTALL_${dir}})
  else()
    set(pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
# Boost has no .pc file: where the compiler does not look by itself, it has to be told.
set(pc_boost)
foreach(dir IN LISTS Boost_INCLUDE_DIRS)
  if(NOT dir IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    string(APPEND pc_boost " -I${dir}")
  endif()
endforeach()
configure_file(cmake/holdfast.pc.in holdfast.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/holdfast.pc DESTINATION ${pkgconfig_dir})

# Stores: a library, its header, and a way to be found each, apart from the rest.
foreach(store IN LISTS stores)
  set(store_requires)
  set(store_dependency)
  if(NOT BUILD_SHARED_LIBS)
    get_property(requires GLOBAL PROPERTY HOLDFAST_STORE_${store}_PC)
    get_property(dependency GLOBAL PROPERTY HOLDFAST_STORE_${store}_FIND)
    set(store_requires ", ${requires}")
    set(store_dependency "find_dependency(${dependency})")
  endif()
  install(TARGETS holdfast_${store} EXPORT holdfast-${store})
  install(FILES include/holdfast/${store}.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/holdfast)
  install(EXPORT holdfast-${store} NAMESPACE holdfast:: FILE holdfast-${store}-targets.cmake DESTINATION ${package_dir})
  configure_file(cmake/holdfast-store.cmake.in holdfast-${store}.cmake @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/holdfast-${store}.cmake DESTINATION ${package_dir})
  configure_file(cmake/holdfast-store.pc.in holdfast-${store}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/holdfast-${store}.pc DESTINATION ${pkgconfig_dir})
endforeach()
