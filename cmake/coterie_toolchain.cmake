# Compiler and linker settings that every target shares.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual
                    -fno-omit-frame-pointer -fstack-protector-strong -fdiagnostics-color=auto)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these wrongly inside inlined standard-library code.
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds -Wno-maybe-uninitialized)
else()
  add_compile_options(-Wno-gnu-zero-variadic-macro-arguments -Wno-unused-command-line-argument)
endif()
add_compile_definitions(_GNU_SOURCE)
if(NOT COTERIE_SANITIZE)
  add_compile_definitions(_FORTIFY_SOURCE=2)
endif()

find_program(MOLD mold)
if(MOLD AND NOT COTERIE_SANITIZE)
  add_link_options(-fuse-ld=mold)
endif()

if(COTERIE_SANITIZE)
  add_compile_options(-fsanitize=${COTERIE_SANITIZE} -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${COTERIE_SANITIZE})
endif()
if(COTERIE_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# For tests that must know: 0 or 1.
set(COTERIE_SANITIZED 0)
if(COTERIE_SANITIZE)
  set(COTERIE_SANITIZED 1)
endif()
