// Nothing: what is precompiled needs a target with a source (tests/CMakeLists.txt).
