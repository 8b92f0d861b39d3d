# cmake -DROOT=... -DTOOLS=... -DOUT=... -P module_identity.cmake
#
# Writes OUT, a source that defines kModuleIdentity: TOOLS (version, compiler, how it is called) and
# a digest of every header that program and module share, and OUT.d, which names those headers.
cmake_minimum_required(VERSION 3.25)
set(left cuda/module.h)
set(seen)
set(digests)
while(left)
  list(POP_FRONT left header)
  if(header IN_LIST seen)
    continue()
  endif()
  list(APPEND seen ${header})
  file(SHA256 ${ROOT}/${header} digest)
  list(APPEND digests "${header} ${digest}")
  file(STRINGS ${ROOT}/${header} includes REGEX "^#include \"")
  foreach(line ${includes})
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
    list(APPEND left ${included})
  endforeach()
endwhile()
list(SORT digests)
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUT} "#include \"cuda/module.h\"
namespace starling::cuda {
const char* const kModuleIdentity = \"${TOOLS}, ${digest}\";
}
")
list(TRANSFORM seen PREPEND ${ROOT}/)
set(depending "${OUT}")
list(TRANSFORM seen REPLACE " " "\\\\ ")
string(REPLACE " " "\\ " depending "${depending}")
list(JOIN seen " " seen)
file(WRITE ${OUT}.d "${depending}: ${seen}\n")
